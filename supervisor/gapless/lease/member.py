"""A supervisor as a member of its groups: join, beat, watch the others, plan, leave.

Every step is one statement in autocommit: the server finishes it even if this process is stopped
right after sending it, so a paused supervisor never holds a lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Any
from uuid import UUID, uuid4

from psycopg import Connection
from psycopg.rows import class_row

from gapless import feature
from gapless.db.listen import listen
from gapless.db.locked import lock_timeout
from gapless.db.queries import query
from gapless.db.refused import refused
from gapless.failpoints import hit
from gapless.keys import Partition
from gapless.lease.foreign_locks import end_foreign_locks, name_prepared
from gapless.lease.room import SESSIONS_PER_SUPERVISOR
from gapless.log.filter import Filter


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTopic:
    """A topic that a group consumes; `start` applies when the group is new.

    mode: "ordered" or "queue". block, max_crashes: of a queue, as create_group() of the database
    takes them. filter: the events that it takes; None: unchanged, for a new group all.
    """

    group_id: str
    topic: str
    topic_id: int
    start: str = "earliest"
    mode: str = "ordered"
    block: int | None = None
    max_crashes: int | None = None
    filter: Filter | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The times after which a silent member is given up; all in ms."""

    ttl_ms: int
    suspect_grace_ms: int
    reconnect_grace_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A partition that this member owns, or is the target of; no worker while it is paused."""

    group_id: str
    topic: str
    topic_id: int
    partition_id: int
    lease_no: int
    group_no: int
    target: UUID | None
    owner: UUID | None
    is_paused: bool = False

    @property
    def partition(self) -> Partition:
        return Partition(
            group_id=self.group_id,
            topic=self.topic,
            topic_id=self.topic_id,
            partition_id=self.partition_id,
        )


def create_group(conn: Connection[Any], subscription: ServedTopic) -> int:
    """Create a group for a topic, unless it exists; return its number.

    Raises RefusedError for a queue that would become an ordered group, or the reverse, and for a
    filter that is none.
    """
    params = {
        "group_id": subscription.group_id,
        "topic": subscription.topic,
        "start": subscription.start,
        "mode": subscription.mode,
        "block": subscription.block,
        "max_crashes": subscription.max_crashes,
    }
    with refused():
        row = conn.execute(query("lease", "create_group"), params).fetchone()
    assert row is not None
    for option in feature.parts(lambda each: each.options):
        option(conn, subscription)
    return int(row[0])


def _place(subscription: ServedTopic) -> dict[str, object]:
    return {"group_id": subscription.group_id, "topic_id": subscription.topic_id}


def _version() -> str | None:
    """Return the version of gapless; None where it was copied without its metadata."""
    try:
        return version("gapless")
    except PackageNotFoundError:
        return None


class Member:
    """This supervisor as its peers see it; lives as long as its control session."""

    def __init__(  # noqa: PLR0913 - the columns of a row
        self,
        conn: Connection[Any],
        subscriptions: Sequence[ServedTopic],
        timing: Timing,
        *,
        name: str,
        capacity: int | None,
        partitions_per_worker: int = 1,
        sessions: int = SESSIONS_PER_SUPERVISOR,
    ) -> None:
        self.member_id = uuid4()
        self._conn = conn
        self._subscriptions = subscriptions
        self._timing = timing
        self._squatters: set[int] = set()  # pids that were logged
        self._prepared: set[str] = set()  # transactions that were logged
        self._member_no = self._value("next_member_no")
        # The lock first, the row second: a member row never exists without its lock. A lock that is
        # taken already is foreign: there are other numbers.
        while not self._value("try_presence", member_no=self._member_no):
            self._member_no = self._value("next_member_no")
        hit("member.locked")
        self._listen()
        self._value(
            "join",
            member_id=self.member_id,
            member_no=self._member_no,
            name=name,
            capacity=capacity,
            partitions_per_worker=partitions_per_worker,
            ttl=timedelta(milliseconds=timing.ttl_ms),
            groups=[subscription.group_id for subscription in subscriptions],
            topics=[subscription.topic for subscription in subscriptions],
            sessions=sessions,
            version=_version(),
            python=python_version(),
        )
        hit("member.joined")

    def reattach(self, conn: Connection[Any]) -> bool:
        """Continue as the same member with a new session; False when it was evicted.

        The server may still have the old session: it is ended, and its lock taken over.
        """
        self._conn = conn
        self._value("end_former_session", member_id=self.member_id)
        self.end_foreign_locks()
        with lock_timeout(conn, self._timing.ttl_ms):
            self._value("presence", member_no=self._member_no)
        hit("member.reattached")
        self._listen()
        return self.beat()

    def beat(self) -> bool:
        """Renew this member; False when it was evicted and must stop its workers."""
        return bool(self._value("beat", member_id=self.member_id))

    def end_foreign_locks(self) -> None:
        """End the foreign sessions that hold a lock of ours; log those that cannot be ended."""
        end_foreign_locks(self._conn, self._squatters)
        name_prepared(self._conn, self._prepared)

    def watch(self) -> bool:
        """Tell, without writing, whether a member may be gone or a plan is out of date."""
        return bool(self._value("watch", member_id=self.member_id))

    def evict(self) -> int:
        """Remove members that are gone; return their number."""
        evicted = self._value(
            "evict",
            member_id=self.member_id,
            suspect_grace=timedelta(milliseconds=self._timing.suspect_grace_ms),
            reconnect_grace=timedelta(milliseconds=self._timing.reconnect_grace_ms),
        )
        hit("member.evicted")
        return int(evicted)

    def sync(self) -> None:
        """Bring the plans of all groups up to date, except where another member is planning."""
        for subscription in self._subscriptions:
            self._value("sync", group_id=subscription.group_id, topic_id=subscription.topic_id)
        hit("member.planned")

    def change(self, wanted: Sequence[ServedTopic]) -> None:
        """Serve these topics from now on: join groups, which exist already, and leave others.

        The workers of the groups that it leaves are to end.
        """
        for each in self._subscriptions:
            if each not in wanted:
                self._value("quit_group", member_id=self.member_id, **_place(each))
        for each in wanted:
            group_no = (
                None if each in self._subscriptions else self._value("group_no", **_place(each))
            )
            if group_no is not None:
                listen(self._conn, f"gapless_g_{group_no}")
                self._value("enter_group", member_id=self.member_id, **_place(each))
        changed = set(self._subscriptions) ^ set(wanted)
        self._subscriptions = wanted
        for each in changed:
            self._value("sync", **_place(each))

    def leases(self) -> list[Lease]:
        """Return the partitions that this member owns or is the target of, in a fixed order."""
        with self._conn.cursor(row_factory=class_row(Lease)) as cursor:
            return cursor.execute(
                query("lease", "leases"), {"member_id": self.member_id}
            ).fetchall()

    def due_leases(self) -> frozenset[int]:
        """Return, without writing, the leases whose workers may have something to do."""
        return frozenset(self._value("due_leases", member_id=self.member_id) or ())

    def disown(self, partition: Partition) -> None:
        """Give up the lease of a partition whose worker died; no-op if it is not ours."""
        self._value("disown", member_id=self.member_id, **partition.params)
        hit("member.disowned")

    def has_peers(self) -> bool:
        """Tell whether another member could take this member's partitions."""
        return bool(self._value("others", member_id=self.member_id))

    def drain(self) -> None:
        """Ask for no more partitions, and have the present ones planned for other members."""
        self._value("drain", member_id=self.member_id)
        hit("member.drained")
        self.sync()

    def leave(self) -> None:
        """Stop being a member; its workers have already ended."""
        self._value("leave", member_id=self.member_id)
        hit("member.left")
        self.sync()

    def _listen(self) -> None:
        for subscription in self._subscriptions:
            group_no = create_group(self._conn, subscription)
            listen(self._conn, f"gapless_g_{group_no}")

    def _value(self, statement: str, /, **params: object) -> Any:
        row = self._conn.execute(query("lease", statement), params).fetchone()
        return None if row is None else row[0]
