"""Batch: the argument of a handler declared with batch=True."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from uuid import UUID

from gapless.consume.unit import Unit
from gapless.log.cause import handling
from gapless.log.event import Event, P_co


class Batch(tuple[Unit[P_co], ...]):  # noqa: SLOT001 - it keeps its correlation
    """The units of one claim, in offset order: the argument of a handler with batch=True.

    Events that are published during an iteration are published for the unit at hand (I10); before
    and after it, for the batch as a whole.
    """

    def __iter__(self) -> Iterator[Unit[P_co]]:
        now = handling.get()
        if now is None or now.origin is not self:
            yield from super().__iter__()
            return
        try:
            for unit in super().__iter__():
                now.origin = unit
                yield unit
        finally:
            now.origin = self

    @property
    def idempotency_key(self) -> str:
        """The batch's name as a cause of published events: the first unit, and the last offset."""
        first = self[0]
        if len(self) == 1:
            return first.idempotency_key
        return first.source.key(f"{first.first_offset}..{self[-1].last_offset}", first.first_offset)

    @cached_property  # each publish() for the batch as a whole asks
    def correlation(self) -> UUID | None:
        """The correlation of all units; None when they differ."""
        found = {unit.correlation for unit in tuple(self)}
        return found.pop() if len(found) == 1 else None

    @property
    def events(self) -> Iterator[Event[P_co]]:
        """All events of all units, in offset order."""
        for unit in self:
            yield from unit
