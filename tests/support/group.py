"""A consumer group made by hand, all its partitions held by one session of the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from gapless.consume.unit import Unit
from gapless.consume.user.handler import handler
from gapless.db.connect import connect
from gapless.keys import Assignment
from gapless.lease import hold
from gapless.lease.member import Lease, Member, ServedTopic, Timing
from gapless.log.topics import Topic
from support.turn import one_step

_HOUR_MS = 3_600_000
# No member is evicted, however long a test takes.
TIMING = Timing(ttl_ms=_HOUR_MS, suspect_grace_ms=_HOUR_MS, reconnect_grace_ms=_HOUR_MS)


@dataclass(frozen=True, slots=True)
class Owner:
    """A session that may commit for every partition of one topic, for one group."""

    conn: Connection[Any]
    assignments: tuple[Assignment, ...]

    def consume(self, refuse: str = "nothing", *, batch_size: int = 100) -> list[str]:
        """Step over all partitions until they are idle; return the event_types of all effects.

        The handler writes each event to the table `effect`, and refuses units that contain an
        event_type beginning with `refuse`.
        """
        self.conn.execute(
            "create table if not exists effect (n serial, group_id text, event_type text)"
        )
        group_id = self.assignments[0].partition.group_id

        @handler(topic="any")
        def write(unit: Unit, conn: Connection[Any]) -> None:
            tags = [str(event.event_type) for event in unit]
            conn.execute(
                "insert into effect (group_id, event_type) select %s, unnest(%s::text[])",
                [group_id, tags],
            )
            if any(tag.startswith(refuse) for tag in tags):
                raise ValueError("refused")

        for assignment in self.assignments:
            while (
                done := one_step(self.conn, assignment, write, batch_size=batch_size)
            ).outcome == "done":
                pass
            assert done.outcome == "idle"
        rows = self.conn.execute(
            "select event_type from effect where group_id = %s order by n", [group_id]
        )
        return [row[0] for row in rows]


def own(conn: Connection[Any], member: Member, lease: Lease) -> Assignment:
    """Take a partition that is meant for a member, from the lock to the fence."""
    assert hold.lock(conn, lease.lease_no)
    assignment = hold.take(conn, lease.partition, member.member_id)
    assert assignment is not None
    assert hold.install(conn, assignment) is not None
    return assignment


def member_of(control: Connection[Any], group_id: str, topic: Topic, name: str = "test") -> Member:
    """Join a group as a member that serves one topic."""
    wanted = ServedTopic(group_id=group_id, topic=topic.name, topic_id=topic.topic_id)
    return Member(control, [wanted], TIMING, name=name, capacity=None)


@contextmanager
def owner(dsn: str, group_id: str, topic: Topic) -> Iterator[Owner]:
    """Join the group as its only member, take all partitions, and leave at the end."""
    with connect(dsn, role="control") as control, connect(dsn, role="worker") as conn:
        member = member_of(control, group_id, topic)
        member.sync()
        leases = member.leases()
        assignments = [own(conn, member, lease) for lease in leases]
        assert len(assignments) == topic.partitions
        yield Owner(conn, tuple(assignments))
        for lease, assignment in zip(leases, assignments, strict=True):
            hold.release(conn, assignment, lease.lease_no)
        member.leave()
