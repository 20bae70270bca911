"""The rows that tell of failures: units that were set aside, and calls of at-least-once handlers."""

from dataclasses import dataclass
from typing import Any

# Killed at the same unit again and again, a worker's death counts against it: that is the promise.
DEATHS = "its worker died"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """A version of a unit that was set aside. due: not tried before; asked: redriven by a person.

    failed, due, asked, at: seconds of the server's clock.
    """

    id: int
    what: str
    group_id: str
    topic: str
    partition_id: int
    first_offset: int
    last_offset: int
    old_state: str | None
    state: str
    attempts: int
    crashes: int
    due: float | None
    failed: float
    asked: float | None
    reason: str
    exception_class: str | None
    sqlstate: str | None
    discard_reason: str | None
    xid: str
    at: float

    @property
    def is_closed(self) -> bool:
        """Whether nobody waits behind it any more."""
        return self.what == "DELETE" or self.state in ("redriven", "discarded")

    @property
    def is_death(self) -> bool:
        """Whether it was given up because of the deaths of its workers."""
        return DEATHS in self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An at-least-once handler began a unit, or ended it well."""

    id: int
    group_id: str
    topic: str
    partition_id: int
    first_offset: int
    last_offset: int
    phase: str
    seen: list[dict[str, Any]] | None  # of each of its events (chaos.effects.seen)
    attempt: int
    idempotency_key: str
    pid: int
    at: float
