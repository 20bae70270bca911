"""Those who look on while a supervisor works, and are told that its loop turns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from gapless.telemetry.meter import Meters


class Observer(Protocol):
    """Somebody who looks on, such as a console; called from the loop, must not block long.

    `filenos()` are its descriptors that a forked child must close.
    """

    def tick(self) -> None: ...
    def filenos(self) -> list[int]: ...


class MetricsProcess(Protocol):
    """A process that shows what is measured, kept by its supervisor but none of the children.

    `meters`: what children count with.
    """

    @property
    def meters(self) -> Meters: ...
    def turn(self, member_id: UUID | None, *, drains: bool) -> None: ...
    def filenos(self) -> list[int]: ...
    def end(self) -> None: ...


MakeExporter = Callable[[Callable[[], list[int]]], MetricsProcess]
"""Is told how to find the descriptors that an exporter must not keep."""
