"""Obstacles of others: events without a topic, locks without a right (I11), transactions."""

from __future__ import annotations

from dataclasses import dataclass

OUTBOX_ID = 1  # an INSERT without a topic_id means this one


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrouted:
    """Events of a topic id without a topic; topic_id 0 stands for all further ids together."""

    topic_id: int
    events: int
    since_s: float

    @property
    def problem(self) -> str:
        """Their number, and the topic id."""
        of_whom = f"topic id {self.topic_id}" if self.topic_id else "further topic ids"
        return (
            f"{self.events} event{'s' if self.events != 1 else ''} of {of_whom}, which nobody made"
        )

    @property
    def remedy(self) -> str:
        """The command that makes a topic of them."""
        name = "outbox" if self.topic_id == OUTBOX_ID else "NAME"
        return f"gapless topics adopt {self.topic_id or 'ID'} {name}"

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignLockHolder:
    """A session that holds a lock of gapless without a right to it; supervisors end it."""

    pid: int
    role: str | None
    holds: str

    def __str__(self) -> str:
        return f"pid {self.pid} of role {self.role} holds {self.holds} and has no right to it"

    @property
    def remedy(self) -> str:
        """The end of it, by a supervisor or by hand."""
        return f"a supervisor ends it; by hand: select pg_terminate_backend({self.pid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """A transaction, or a client that never polls, in the way of others; and its remedy."""

    kind: str
    name: str
    since_s: float
    problem: str
    remedy: str
