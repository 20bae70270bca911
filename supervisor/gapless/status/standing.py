"""The standing of a group in a partition: its worker, its progress, its trouble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

Key = tuple[str, str, int]
"""A partition of a group: group_id, topic, partition_id."""

_REMEDIES = (
    (
        "retrying: blocked at ",
        "correct the handler or the data: it continues by itself; or seek past the unit",
    ),
    ("retrying: slowed down: ", "correct the cause: it continues by itself"),
    ("retrying: ", "it is tried again by itself until the cause is gone"),
)  # by the beginning of an error

State = Literal[
    "working",
    "waiting",
    "moving",
    "starting",
    "lost",
    "unserved",
    "pausing",
    "paused",
    "shared",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The standing of a group in a partition: its worker, its progress, its trouble.

    next_offset is the one the group handles next, last_offset the newest in the log (0: none).
    owner is a name; an owner_id without a name was evicted. lag_s is None when the next event is
    missing from the log. dead_letters, waiting, parked: units set aside for good, for another
    attempt, or behind one; dead_events: of those set aside for good; aside_ts: when the first of
    all these units failed. waits_for: the partitions of an earlier number of them that must be
    finished before this one continues. paused_ts: the start of a pause; pause: by whom, why. mode:
    "ordered", or "queue": then `workers` of the group, on all machines, share it; open, in_hand
    (reserved), lapsed and finished_ahead count events: all below next_offset are finished, and
    finished_ahead above it. lapsed_ts: when the first of those lapsed. in_work: sessions that
    handle some of the open ones now. start: the command that serves a group which no supervisor
    leases; then `owner`, without a number, does.
    """

    group_id: str
    topic: str
    partition_id: int
    owner: str | None
    target: str | None
    owner_id: UUID | None
    target_id: UUID | None
    epoch: int
    is_held: bool
    next_offset: int
    last_offset: int
    lag: int
    lag_s: float | None
    error: str | None
    error_ts: datetime | None
    dead_letters: int
    dead_events: int = 0
    waits_for: Sequence[int] = ()
    paused_ts: datetime | None = None
    pause: str | None = None
    waiting: int = 0
    parked: int = 0
    aside_ts: datetime | None = None
    mode: Literal["ordered", "queue"] = "ordered"
    workers: int = 0
    open: int = 0
    in_hand: int = 0
    in_work: int = 0
    lapsed: int = 0
    lapsed_ts: datetime | None = None
    finished_ahead: int = 0
    start: str = field(default="", metadata={"added": True})

    @property
    def key(self) -> Key:
        return (self.group_id, self.topic, self.partition_id)

    @property
    def name(self) -> str:
        return f"{self.group_id}/{self.topic}/{self.partition_id}"

    @property
    def state(self) -> State:
        """Its state; lost is an owner without a session at work, about to be replaced.

        pausing: its worker finishes a batch; paused: it has none, until a person resumes it.
        shared: any worker of a queue serves it.
        """
        if self.paused_ts is not None:
            return "pausing" if self.is_held and self.mode == "ordered" else "paused"
        if self.mode == "queue":
            # Clients that take by SQL or HTTP are no workers: their events in hand show them.
            served = self.workers or self.in_hand or self.in_work or not self.open
            return "shared" if served else "unserved"
        if self.owner_id is None:
            ahead: State = "unserved" if self.target_id is None else "starting"
            return ahead if self.owner is None else "working"
        if self.owner_id != self.target_id:
            return "moving"
        if not self.is_held:
            return "lost"
        return "waiting" if self.waits_for else "working"

    @property
    def remedy(self) -> str:
        """The remedy of its error; empty: the error names one itself, or there is none."""
        error = self.error or ""
        return next((said for begin, said in _REMEDIES if error.startswith(begin)), "")

    @property
    def is_troubled(self) -> bool:
        """Whether a person should look at it."""
        return self.error is not None or self.state in ("unserved", "lost")
