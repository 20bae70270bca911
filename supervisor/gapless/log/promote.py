"""Events for later, as a giver of offsets sees them: a feature brings them into the log."""

from __future__ import annotations

from typing import Any, Protocol

from psycopg import Connection

from gapless import feature


class Promoter(Protocol):
    """What a sequencer asks between its runs. holds: an open transaction keeps a due event back."""

    holds: bool

    def is_due(self) -> bool:
        """Tell whether there may be something to promote, while the sequencer is awake."""

    def wait_s(self, most_s: float) -> float:
        """Return for how long a sequencer may sleep that is woken when something is scheduled."""

    def rest_s(self, most_s: float) -> float:
        """Return for how long a sequencer may rest that is busy."""

    def promote(self, conn: Connection[Any]) -> int:
        """Promote what is due, some of it; return how many events got into the log."""

    def promote_all(self, conn: Connection[Any]) -> int:
        """Promote all that is due; return how many events it were."""


def promoter() -> Promoter:
    """Return the feature's, new; without it nothing is ever due."""
    made = (each.promoting() for each in feature.listed() if each.promoting)
    return next(made, _NothingIsDue)()


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
