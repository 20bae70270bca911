"""Members and workers of a group as sessions of one test, played by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from uuid import UUID

from psycopg import Connection

from gapless.db.connect import connect
from gapless.keys import Assignment, Partition
from gapless.lease import hold
from gapless.lease.member import Member, ServedTopic, Timing
from gapless.log.topics import Topic

TIMING = Timing(ttl_ms=60_000, suspect_grace_ms=0, reconnect_grace_ms=0)


class Cast:
    """Opens sessions, and closes the open ones at the end."""

    def __init__(self, dsn: str, conn: Connection, topic: Topic) -> None:
        self.dsn = dsn
        self.conn = conn
        self.topic = topic
        self._sessions: list[Connection] = []

    def session(self, role: str = "test") -> Connection:
        self._sessions.append(connect(self.dsn, role=role))
        return self._sessions[-1]

    def member(
        self,
        name: str = "m",
        *,
        groups: tuple[str, ...] = ("g",),
        capacity: int | None = None,
        timing: Timing = TIMING,
    ) -> Member:
        subscriptions = [
            ServedTopic(group_id=group, topic=self.topic.name, topic_id=self.topic.topic_id)
            for group in groups
        ]
        return Member(self.session(name), subscriptions, timing, name=name, capacity=capacity)

    def partition(self, partition_id: int = 0, group: str = "g") -> Partition:
        return Partition(
            group_id=group,
            topic=self.topic.name,
            topic_id=self.topic.topic_id,
            partition_id=partition_id,
        )

    def work(self, member: Member, partition_id: int = 0) -> tuple[Connection, Assignment]:
        """Be a worker of a member that has just taken a partition."""
        session = self.session("worker")
        assert hold.lock(session, self.lease_no(partition_id))
        taken = hold.take(session, self.partition(partition_id), member.member_id)
        assert taken is not None
        assert hold.install(session, taken) is not None
        return session, taken

    def lease_no(self, partition_id: int = 0) -> int:
        return int(self.lease("lease_no", partition_id))

    def lease(self, column: str, partition_id: int = 0) -> object:
        row = self.conn.execute(
            f"select {column} from gapless.lease where group_id = 'g' and partition_id = %s",
            [partition_id],
        ).fetchone()
        assert row is not None
        return row[0]

    def members(self) -> set[UUID]:
        return {row[0] for row in self.conn.execute("select member_id from gapless.member")}

    def let_pass(self, member: Member, ttl: timedelta) -> None:
        """Let a member's time run out, without waiting for it."""
        self.conn.execute(
            "update gapless.member set expires_at = expires_at - %s where member_id = %s",
            [ttl, member.member_id],
        )

    @contextmanager
    def closing(self) -> Iterator[Cast]:
        try:
            yield self
        finally:
            for session in self._sessions:
                session.close()
