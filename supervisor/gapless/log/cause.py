"""What an event came of: the unit that was handled when it was published (I10).

Whoever handles a unit says so here, and publish() asks. The database has the same in settings of a
transaction, for what is published without publish(): sql/log/functions/chain/tell_cause.sql.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

Told = dict[str, str | None]
"""What the statements are told of an origin: cause and correlation; empty where there is none."""

_FORM = re.compile(r"(?s)(.+)/([A-Za-z0-9._-]+)/(\d{1,9})@(\d{1,18})(?:\.\.\d+)?(?:~\d+)?")


class Cause(NamedTuple):
    """The unit that an event came of: `offset` is that of its first event."""

    group: str
    topic: str
    partition: int
    offset: int


class Origin(Protocol):
    """What can be the cause of an event: a Unit, or a Batch."""

    @property
    def idempotency_key(self) -> str: ...
    @property
    def correlation(self) -> UUID | None: ...


@dataclass(slots=True)
class Handling:
    """What is being handled now; `origin` changes from unit to unit."""

    origin: Origin | None = None


# A variable of the context, not of the thread: each task of an event loop has its own.
handling: ContextVar[Handling | None] = ContextVar("gapless_handling", default=None)


def current_origin() -> Origin | None:
    """Return what is being handled where this is called; None outside of handlers."""
    now = handling.get()
    return None if now is None else now.origin


def told_of(origin: Origin | None) -> Told:
    """Return what the statements are told of an origin; None: of what is being handled, if any."""
    origin = origin or current_origin()
    if origin is None:
        return {}
    correlation = origin.correlation
    return {
        "cause": origin.idempotency_key,
        "correlation": None if correlation is None else str(correlation),
    }


def parse_cause(text: str | None) -> Cause | None:
    """Return the cause that a unit's idempotency key names; None for anything else."""
    found = _FORM.fullmatch(text or "")
    if found is None:
        return None
    group, topic, partition, offset = found.groups()
    return Cause(group, topic, int(partition), int(offset))
