"""One look at everything: frozen records, each a row of a query in sql/status/queries/status.sql.

Ages are seconds by the database's clock at `Server.taken_ts`. Large counts stop at COUNT_MAX.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, TypeVar
from uuid import UUID

from gapless.status.standing import Key, Standing, State
from gapless.status.strangers import ForeignLockHolder, Obstacle, Unrouted

__all__ = ["Key", "Standing", "State"]  # they are part of this module

R = TypeVar("R")

COUNT_MAX = 10_000  # pending events, and dead letters of a partition: counting stops here


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The database server; counters are since its statistics were reset."""

    taken_ts: datetime
    database: str
    version: str
    started_ts: datetime
    oldest_transaction_s: float | None
    oldest_transaction: str | None
    sessions: int
    commits: int
    rollbacks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequencing:
    """The sequencer: its newest run that found events, and the session that has the role."""

    run: int
    events: int
    ran_ts: datetime
    pid: int | None
    is_asleep: bool
    needs_rebase: bool

    @property
    def state(self) -> Literal["awake", "asleep", "nobody"]:
        if self.pid is None:
            return "nobody"
        return "asleep" if self.is_asleep else "awake"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEnd:
    """A topic and the newest offset of each partition, in the order of their numbers (0: none)."""

    topic: str
    partitions: int
    events: int
    last_offsets: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Events of a topic that are committed and have no offset yet."""

    topic: str
    events: int
    oldest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """A member: a running supervisor, or a client of a group, which has only a deadline (kind).

    revoked_role: the role of a member that may take no leases. version (of gapless), python: those
    that it runs on; None: a client, or unknown.
    """

    member_id: UUID
    name: str
    state: Literal["active", "draining"]
    up_s: float
    beat_s: float
    ttl_s: float
    is_present: bool
    is_suspected: bool
    capacity: int | None
    owned: int
    wanted: int
    groups: list[str]
    revoked_role: str | None = None
    kind: Literal["supervisor", "client"] = "supervisor"
    version: str | None = None
    python: str | None = None

    @property
    def condition(self) -> str:
        """The state in a word, the worst first."""
        if self.revoked_role is not None:
            return "revoked"
        if not self.is_present:
            return "gone"
        if self.is_suspected or self.beat_s > self.ttl_s:
            return "silent"
        return self.state

    @property
    def revoked(self) -> str:
        """The reason why it waits, when its role is revoked."""
        return f"supervisor {self.name} waits: its role {self.revoked_role} may take no leases"

    @property
    def remedy(self) -> str:
        """The command that ends the wait."""
        role = (self.revoked_role or "").replace('"', '""')
        return f'grant gapless_consumer to "{role}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A group that still has events of an earlier number of partitions to finish."""

    group_id: str
    topic: str
    partitions_before: int
    partitions: int
    unfinished: Sequence[int]
    events: int

    def __str__(self) -> str:
        return (
            f"{self.group_id}/{self.topic}: from {self.partitions_before} to {self.partitions} "
            f"partition{'s' if self.partitions != 1 else ''}, {self.events} "
            f"event{'s' if self.events != 1 else ''} to finish first"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLog:
    """The reason why the oldest chunk of the log stays longer than its topics want.

    since_s: by so much; None: unknown.
    """

    reason: str
    since_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentLetter:
    """One of the newest units that died; error is the last line of the newest exception."""

    group_id: str
    topic: str
    partition_id: int
    first_offset: int
    attempts: int
    error: str
    last_failed_ts: datetime

    @property
    def name(self) -> str:
        return f"{self.group_id}/{self.topic}/{self.partition_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A member that its peers evicted, and why; one that left by itself was not evicted."""

    member_id: UUID
    name: str
    reason: str
    evicted_ts: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over all topics and groups, by their names in documents.

    events: that ever got an offset. pending: events without one yet; None when only a re-base can
    tell. lag: events not yet handled. pending_s, lag_s: the age of the oldest; 0 without one.
    dead_letters, waiting for another attempt, parked behind an earlier one of their key: units;
    dead_events: events of the dead ones.
    """

    events: int
    pending: int | None
    pending_s: float
    lag: int
    lag_s: float
    dead_letters: int
    dead_events: int
    waiting: int
    parked: int


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything at one moment. `place` names the database; chunks are of the log.

    beside: rows of the sections of features, by their type.
    """

    place: str
    server: Server
    sequencer: Sequencing
    topics: tuple[TopicEnd, ...]
    pending: tuple[Pending, ...]
    members: tuple[Presence, ...]
    partitions: tuple[Standing, ...]
    letters: tuple[RecentLetter, ...]
    changes: tuple[Change, ...] = ()
    held: tuple[HeldLog, ...] = ()
    unrouted: tuple[Unrouted, ...] = ()
    foreign_locks: tuple[ForeignLockHolder, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    chunks: int = 0
    beside: Mapping[type, tuple[Any, ...]] = field(default_factory=dict)

    def of(self, record: type[R]) -> tuple[R, ...]:
        """Return the rows of a feature's section, by their type."""
        return self.beside.get(record, ())

    @cached_property
    def totals(self) -> Totals:
        """The sums over all topics and groups."""
        rows, pending = self.partitions, self.pending
        is_unknown = self.sequencer.needs_rebase
        return Totals(
            events=sum(topic.events for topic in self.topics),
            pending=None if is_unknown else sum(each.events for each in pending),
            pending_s=max((each.oldest_s for each in pending), default=0.0),
            lag=sum(row.lag for row in rows),
            lag_s=max((row.lag_s or 0.0 for row in rows), default=0.0),
            dead_letters=sum(row.dead_letters for row in rows),
            dead_events=sum(row.dead_events for row in rows),
            waiting=sum(row.waiting for row in rows),
            parked=sum(row.parked for row in rows),
        )
