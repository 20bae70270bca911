"""Observers of a supervisor, which are told at each turn of its loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from gapless.telemetry.meter import Meters


class Observer(Protocol):
    """An observer, such as a console; the loop calls it, so it must not block for long.

    `filenos()` are its descriptors that a forked child must close.
    """

    def tick(self) -> None: ...
    def filenos(self) -> list[int]: ...


class MetricsProcess(Protocol):
    """A process that exports metrics; its supervisor runs it, but it is none of the children.

    `meters`: the counters of the children.
    """

    @property
    def meters(self) -> Meters: ...
    def turn(self, member_id: UUID | None, *, drains: bool) -> None: ...
    def filenos(self) -> list[int]: ...
    def end(self) -> None: ...


MakeExporter = Callable[[Callable[[], list[int]]], MetricsProcess]
"""Takes the function that lists the descriptors an exporter must not keep."""
