"""A queue group made by hand, from which tests take events as a worker does and as clients do."""

from dataclasses import dataclass
from typing import Any

from psycopg import Connection

from gapless.log.sequence import sequence

TAKE = """
select outcome, first_offset, last_offset, claim_xid, event_type
from gapless.take_next(%(group)s, %(topic_id)s, %(partition)s, %(lease)s, %(block)s, %(max)s, %(hint)s)
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """Events taken by a worker in its open transaction: offsets, and types in any order."""

    outcome: str
    offsets: tuple[int, int] | None
    claim_xid: str | None
    events: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue group's partition; sessions are given to each call."""

    group: str
    topic: str
    topic_id: int
    partition: int
    lease: int
    block: int

    def take(self, conn: Connection[Any], hint: int | None = None, *, most: int = 4) -> Taken:
        """Take as a worker: the caller has begun a transaction, or is in autocommit."""
        rows = conn.execute(
            TAKE,
            {
                "group": self.group,
                "topic_id": self.topic_id,
                "partition": self.partition,
                "lease": self.lease,
                "block": self.block,
                "max": most,
                "hint": hint,
            },
        ).fetchall()
        outcome, first, last, xid, _ = rows[0]
        events = frozenset(row[4] for row in rows if row[0] is None)
        return Taken(outcome, None if first is None else (first, last), xid, events)

    def finish(self, conn: Connection[Any], taken: Taken) -> None:
        """Declare it finished and commit."""
        done = conn.execute("select gapless.finish_units(%s, 1)", [taken.claim_xid]).fetchone()
        assert done == (True,)
        conn.execute("commit")

    def work(self, conn: Connection[Any], hint: int | None = None, *, most: int = 4) -> Taken:
        """Take and finish in a transaction of its own."""
        conn.execute("begin")
        taken = self.take(conn, hint, most=most)
        if taken.outcome == "claimed":
            self.finish(conn, taken)
        else:
            conn.execute("rollback")
        return taken

    def reserve(
        self, conn: Connection[Any], most: int = 1, visibility: str = "60 s"
    ) -> list[tuple[str, int, int, str]]:
        """Take as a client: (receipt, offset, attempt, event_type) of each event."""
        return conn.execute(
            "select receipt, c_offset, attempt, event_type from gapless.take(%s, %s, %s, %s)",
            [self.group, self.topic, most, visibility],
        ).fetchall()

    def call(self, conn: Connection[Any], function: str, receipt: str, *more: object) -> Any:
        """Settle or extend a receipt: acknowledge, release, reject or extend."""
        rest = "".join(", %s" for _ in more)
        row = conn.execute(
            f"select gapless.{function}(%s, %s, %s{rest})",
            [self.group, self.topic, receipt, *more],
        ).fetchone()
        assert row is not None
        return row[0]

    def sweep(self, conn: Connection[Any]) -> int:
        """Sweep; return how far the floor moved."""
        row = conn.execute("select gapless.sweep(%s)", [self.lease]).fetchone()
        assert row is not None
        return int(row[0])

    def ranges(self, conn: Connection[Any]) -> list[tuple[int, int, str]]:
        """Return the ranges noted above the floor: (first, last, 'done' | 'held' | 'open')."""
        return conn.execute(
            "select first_offset, last_offset, case when deadline is null then 'done'"
            " when deadline > clock_timestamp() then 'held' else 'open' end"
            " from gapless.queue_range where lease_no = %s order by 1",
            [self.lease],
        ).fetchall()

    def floor(self, conn: Connection[Any]) -> int:
        """Return the floor; the two tables that have it must agree."""
        row = conn.execute(
            "select c.next_offset, f.next_offset from gapless.lease l"
            " join gapless.consumer_offsets c using (group_id, topic_id, partition_id)"
            " cross join lateral gapless.floor_of(l.lease_no) f where l.lease_no = %s",
            [self.lease],
        ).fetchone()
        assert row is not None
        assert row[0] == row[1]
        return int(row[0])


def publish(conn: Connection[Any], topic: str, first: int, last: int) -> None:
    """Publish e<first> to e<last>, one unit, and give them their offsets."""
    conn.execute(
        "insert into gapless.outbox_message_t (topic_id, event_type, key, payload)"
        " select gapless.topic_id(%s), 'e' || n, 'k', json_build_object('n', n)"
        " from generate_series(%s::int, %s::int) n order by n",
        [topic, first, last],
    )
    while sequence(conn):
        pass


def make(
    conn: Connection[Any], *, events: int, block: int, group: str = "sender", topic: str = "mails"
) -> Queue:
    """Make a topic of one partition, a queue group, and `events` events."""
    conn.execute("select gapless.create_topic(%s, 1)", [topic])
    if events:
        publish(conn, topic, 1, events)
    return join(conn, block=block, group=group, topic=topic)


def join(conn: Connection[Any], *, block: int, group: str, topic: str) -> Queue:
    """Make a queue group for an existing topic; return its first partition."""
    conn.execute(
        "select gapless.create_group(%s, %s, mode => 'queue', block => %s)", [group, topic, block]
    )
    row = conn.execute(
        "select l.topic_id, l.lease_no from gapless.lease l"
        " where l.group_id = %s and l.topic_id = gapless.topic_id(%s) and l.partition_id = 0",
        [group, topic],
    ).fetchone()
    assert row is not None
    return Queue(group=group, topic=topic, topic_id=row[0], partition=0, lease=row[1], block=block)
