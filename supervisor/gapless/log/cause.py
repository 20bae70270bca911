"""The cause of an event: the unit that was being handled when it was published (I10).

A caller that handles a unit sets it here, and publish() reads it. The database keeps the same in
settings of the transaction, for events that are published without publish():
sql/log/functions/chain/tell_cause.sql.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

Attribution = dict[str, str | None]
"""An origin as the statements get it: cause and correlation; empty where there is none."""

_FORM = re.compile(r"(?s)(.+)/([A-Za-z0-9._-]+)/(\d{1,9})@(\d{1,18})(?:\.\.\d+)?(?:~\d+)?")


class Cause(NamedTuple):
    """The unit that caused an event: `offset` is that of the unit's first event."""

    group: str
    topic: str
    partition: int
    offset: int


class Origin(Protocol):
    """A possible cause of an event: a Unit, or a Batch."""

    @property
    def idempotency_key(self) -> str: ...
    @property
    def correlation(self) -> UUID | None: ...


@dataclass(slots=True)
class Handling:
    """The work that is being handled now; `origin` changes from unit to unit."""

    origin: Origin | None = None


# A variable of the context, not of the thread: each task of an event loop has its own.
handling: ContextVar[Handling | None] = ContextVar("gapless_handling", default=None)


def current_origin() -> Origin | None:
    """Return the origin that is being handled where this is called; None outside of handlers."""
    now = handling.get()
    return None if now is None else now.origin


def attribution_of(origin: Origin | None) -> Attribution:
    """Return an origin as the statements get it; None: the one that is being handled, if any."""
    origin = origin or current_origin()
    if origin is None:
        return {}
    correlation = origin.correlation
    return {
        "cause": origin.idempotency_key,
        "correlation": None if correlation is None else str(correlation),
    }


def parse_cause(text: str | None) -> Cause | None:
    """Return the cause that a unit's idempotency key names; None for any other text."""
    found = _FORM.fullmatch(text or "")
    if found is None:
        return None
    group, topic, partition, offset = found.groups()
    return Cause(group, topic, int(partition), int(offset))
