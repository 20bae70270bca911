"""Scheduled events, as a giver of offsets sees them: a feature brings them into the log."""

from __future__ import annotations

from typing import Any, Protocol

from psycopg import Connection

from gapless import feature


class DueEvents(Protocol):
    """The sequencer's source of due events. holds: an open transaction keeps a due event back."""

    holds: bool

    def is_due(self) -> bool:
        """Tell whether there may be an event to promote, while the sequencer is awake."""

    def wait_s(self, most_s: float) -> float:
        """Return the seconds that a sequencer may sleep; a newly scheduled event wakes it."""

    def rest_s(self, most_s: float) -> float:
        """Return the seconds that a busy sequencer may rest."""

    def promote(self, conn: Connection[Any]) -> int:
        """Promote some of the due events; return the number of events that got into the log."""

    def promote_all(self, conn: Connection[Any]) -> int:
        """Promote all due events; return their number."""


def promoter() -> DueEvents:
    """Return a new promoter of the feature; without the feature nothing is ever due."""
    make = next(feature.given(lambda each: each.promoting), _NothingIsDue)
    return make()


class _NothingIsDue:
    holds = False

    def is_due(self) -> bool:
        return False

    def wait_s(self, most_s: float) -> float:
        return most_s

    rest_s = wait_s

    def promote(self, _: Connection[Any]) -> int:
        return 0

    promote_all = promote
