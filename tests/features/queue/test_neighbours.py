"""Queue groups and all else: ordered groups, roles, foreign_locks, partitions, waiting, retention, views."""

from collections.abc import Callable
from uuid import UUID

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.errors import WaitError
from gapless.log.topics import Topic
from gapless.log.wait import wait_for
from support.group import owner
from support.queue import Queue, join, make

Sessions = Callable[[], Connection]


def test_an_ordered_group_on_the_topic_is_not_disturbed(
    queue: Queue, conn: Connection, dsn: str
) -> None:
    conn.execute("select gapless.create_group('ledger', 'mails')")
    conn.execute("begin")
    taken = queue.take(conn)
    topic = Topic(topic_id=queue.topic_id, name="mails", partitions=1)
    with owner(dsn, "ledger", topic) as mine:
        assert mine.consume() == [f"e{n}" for n in range(1, 21)]
    queue.finish(conn, taken)
    assert queue.sweep(conn) == 4


class TestRoles:
    def test_a_consumer_may(self, queue: Queue, role: Callable[..., str]) -> None:
        with connect(role("gapless_consumer"), role="test") as conn:
            receipt = queue.reserve(conn)[0][0]
            queue.call(conn, "extend", receipt, "1 h")
            queue.call(conn, "acknowledge", receipt)
            queue.call(conn, "release", queue.reserve(conn)[0][0])
            queue.call(conn, "reject", queue.reserve(conn)[0][0], "no")
            conn.execute("select * from gapless.queue_state('sender')")
            conn.execute("select * from gapless.queue_jobs limit 1")
            queue.sweep(conn)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute("update gapless.queue_range set deadline = null")

    @pytest.mark.few(3)
    @pytest.mark.parametrize(
        "call",
        [
            "take('sender', 'mails')",
            "acknowledge('sender', 'mails', 'x')",
            "release('sender', 'mails', 'x')",
            "reject('sender', 'mails', 'x', 'y')",
            "extend('sender', 'mails', 'x')",
            "queue_state('sender')",
            "sweep(1)",
            "note_death(1, 1, 1)",
        ],
    )
    def test_a_producer_may_not(self, queue: Queue, role: Callable[..., str], call: str) -> None:
        with (
            connect(role("gapless_producer"), role="test") as conn,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            conn.execute(f"select gapless.{call}")


class TestSquatter:
    """I11: anybody who may connect may take an advisory lock."""

    @pytest.mark.parametrize("of", ["block", "partition"])
    def test_it_is_seen_and_ended_by_whoever_takes(
        self, queue: Queue, conn: Connection, role: Callable[..., str], of: str
    ) -> None:
        with psycopg.connect(role(), autocommit=True) as squatter:
            if of == "partition":
                squatter.execute("select pg_advisory_lock(7427003, %s)", [queue.lease])
            else:
                for block in range(5):
                    key = conn.execute("select gapless.block_key(%s, %s)", [queue.lease, block])
                    squatter.execute("select pg_advisory_lock(7427006, %s)", key.fetchone())
            holds = conn.execute("select distinct holds from gapless.foreign_locks").fetchall()
            assert holds == [
                ("a block of a queue" if of == "block" else "partition sender/mails/0",)
            ]
            assert queue.reserve(conn) == []
            for _ in range(100):
                if queue.reserve(conn):
                    break
            else:
                pytest.fail("it was not ended")
            with pytest.raises(psycopg.OperationalError):
                squatter.execute("select 1")


class TestPartitions:
    def test_more_and_fewer(self, conn: Connection) -> None:
        """A queue group ignores barriers; what is in a partition that is taken away is still to be had."""
        queue = make(conn, events=0, block=4)

        def send(first: int) -> None:
            conn.execute(
                "insert into gapless.outbox_message_t (topic_id, event_type, key)"
                " select %s, 'e' || n, n::text from generate_series(%s::int, %s::int) n",
                [queue.topic_id, first, first + 19],
            )
            conn.execute("select gapless.sequence_events()")

        send(1)
        conn.execute("select gapless.set_partitions('mails', 3)")
        send(21)
        conn.execute("select gapless.set_partitions('mails', 1)")
        send(41)
        names = []
        while rows := queue.reserve(conn, 4):
            names += [row[3] for row in rows]
            queue.call(conn, "acknowledge", rows[0][0])
        assert sorted(names) == sorted(f"e{n}" for n in range(1, 61))
        conn.execute("select gapless.retire('sender', %s)", [queue.topic_id])
        left = conn.execute(
            "select partition_id from gapless.queue_places('sender', %s)", [queue.topic_id]
        ).fetchall()
        assert left == [(0,)]
        floors = conn.execute("select count(distinct lease_no) from gapless.queue_floor").fetchone()
        assert floors == (1,)
        conn.execute("select gapless.set_partitions('mails', 2)")
        send(61)
        while rows := queue.reserve(conn, 4):
            names += [row[3] for row in rows]
            queue.call(conn, "acknowledge", rows[0][0])
        assert len(names) == len(set(names)) == 80


def test_who_waits_for_a_transaction_is_told_above_the_floor(
    conn: Connection,
) -> None:
    queue = make(conn, events=0, block=1)
    units = []
    for n in (1, 2):
        with conn.transaction():
            row = conn.execute("select gapless.own_transaction_id()").fetchone()
            assert row is not None
            units.append(row[0])
            conn.execute(
                "insert into gapless.outbox_message_t (topic_id, event_type) values (%s, %s)",
                [queue.topic_id, f"e{n}"],
            )
        conn.execute("select gapless.sequence_events()")

    def state(unit: UUID) -> str:
        row = conn.execute("select gapless.transaction_state('sender', %s)", [unit]).fetchone()
        assert row is not None
        return str(row[0])

    straggler = queue.reserve(conn)[0][0]
    assert [state(unit) for unit in units] == ["pending", "pending"]
    queue.work(conn, 2, most=1)
    assert [state(unit) for unit in units] == ["pending", "handled"]
    chain = "select state from gapless.chain_state(array['sender'], %s)"
    assert conn.execute(chain, [units[1]]).fetchone() == ("handled",)
    assert wait_for(conn, "sender", units[1], 0) == "handled"
    with pytest.raises(WaitError, match="has not come to it yet"):
        wait_for(conn, "sender", units[0], 0)
    queue.call(conn, "reject", straggler, "no")
    assert [state(unit) for unit in units] == ["dead", "handled"]
    assert wait_for(conn, "sender", units[0], 0) == "dead"


def test_states_as_a_job_table_shows_them(
    queue: Queue, conn: Connection, open_session: Sessions
) -> None:
    one = open_session()
    held = queue.reserve(conn, 4)[0][0]
    queue.call(conn, "acknowledge", held, 1)
    conn.execute("select gapless.reject('sender', 'mails', %s, 'no', c_offset => 2)", [held])
    one.execute("begin")
    queue.take(one)  # 5 to 8
    rows = conn.execute(
        "select c_offset, state, attempts, holder from gapless.queue_jobs"
        " where group_id = 'sender' and topic = 'mails' order by c_offset limit 9"
    ).fetchall()
    me = conn.execute("select session_user::text").fetchone()
    assert me is not None
    assert [row[:2] for row in rows] == [
        (1, "PROCESSED"),
        (2, "FAILED"),
        (3, "PROCESSING"),
        (4, "PROCESSING"),
        *((n, "PROCESSING") for n in range(5, 9)),
        (9, "ENQUEUED"),
    ]
    assert rows[2][3] == me[0]
    assert rows[4][3] == str(one.info.backend_pid)
    queue.sweep(conn)
    assert conn.execute("select state from gapless.queue_jobs where c_offset = 2").fetchall() == [
        ("FAILED",)
    ], "below the floor, too"
    state = conn.execute(
        "select next_offset, end_offset, open, in_work, in_hand, finished_ahead, waiting, dead"
        " from gapless.queue_state('sender')"
    ).fetchone()
    assert state == (3, 21, 16, 1, 2, 0, 0, 1)
    one.execute("rollback")


def test_retention_waits_for_the_floor(conn: Connection) -> None:
    """Never what is open or in hand: the floor is what other groups' offsets are (Q3)."""
    queue = make(conn, events=20, block=4)
    straggler = queue.reserve(conn, 4)[0][0]
    for n in range(2, 6):
        queue.work(conn, n * 4 - 3)
    queue.sweep(conn)
    lag = "select lag from gapless.lag where group_id = 'sender'"
    assert conn.execute(lag).fetchone() == (20,)
    queue.call(conn, "acknowledge", straggler)
    queue.sweep(conn)
    assert conn.execute(lag).fetchone() == (0,)


def test_who_drops_a_group_takes_no_other_s_floor_and_ranges(
    queue: Queue, conn: Connection
) -> None:
    other = join(conn, block=2, group="auditor", topic="mails")
    for each in (queue, other):
        each.work(conn)
        each.reserve(conn)

    def rows(lease: int) -> list[tuple[str]]:
        return conn.execute(
            "select to_jsonb(f)::text from gapless.queue_floor f where f.lease_no = %(lease)s"
            " union all"
            " select to_jsonb(r)::text from gapless.queue_range r where r.lease_no = %(lease)s"
            " order by 1",
            {"lease": lease},
        ).fetchall()

    before = rows(queue.lease)
    assert len(before) > 2
    conn.execute("select gapless.drop_group('auditor')")
    assert rows(queue.lease) == before
    assert rows(other.lease) == []
