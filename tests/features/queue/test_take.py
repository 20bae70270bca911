"""Q1 to Q4 by two sessions, step by step: who has what, and when it counts."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg import Connection

from support.queue import Queue, make, publish

Sessions = Callable[[], Connection]


def _names(first: int, last: int) -> frozenset[str]:
    return frozenset(f"e{n}" for n in range(first, last + 1))


class TestOneHolder:
    def test_two_with_the_same_hint_do_not_wait_for_each_other(
        self, queue: Queue, open_session: Sessions
    ) -> None:
        one, two = open_session(), open_session()
        two.execute("set statement_timeout = '5 s'")
        one.execute("begin")
        two.execute("begin")
        assert queue.take(one, 1).events == _names(1, 4)
        assert queue.take(two, 1).events == _names(5, 8)
        two.execute("rollback")
        one.execute("rollback")

    def test_what_was_rolled_back_is_taken_again(
        self, queue: Queue, conn: Connection, open_session: Sessions
    ) -> None:
        one = open_session()
        one.execute("begin")
        taken = queue.take(one)
        assert queue.work(conn).events == _names(5, 8)
        one.execute("rollback")
        assert queue.work(conn, 9).events == _names(9, 12), "by its hint it goes on"
        assert queue.work(conn).events == taken.events, "from the floor it finds what is open"

    def test_a_session_that_ends_gives_back_at_once(
        self, queue: Queue, conn: Connection, open_session: Sessions
    ) -> None:
        one = open_session()
        one.execute("begin")
        taken = queue.take(one)
        conn.execute("select pg_terminate_backend(%s, 5000)", [one.info.backend_pid])
        assert queue.work(conn).events == taken.events

    def test_a_look_begun_before_the_lock_would_not_see_the_commit(
        self, queue: Queue, conn: Connection, open_session: Sessions
    ) -> None:
        """The lock is free since the other has committed: what it took is not taken again (Q2)."""
        one, two = open_session(), open_session()
        for first in (1, 5, 9, 13, 17):
            one.execute("begin")
            two.execute("begin")
            mine = queue.take(one, first)
            queue.finish(one, mine)
            # A hint to a block that has just been finished.
            assert queue.take(two, first).events.isdisjoint(mine.events)
            two.execute("rollback")

    def test_a_stale_hint_below_the_floor_takes_nothing_twice(
        self, queue: Queue, conn: Connection
    ) -> None:
        for _ in range(3):
            queue.work(conn)
        assert queue.sweep(conn) == 12
        assert queue.ranges(conn) == []
        assert queue.work(conn, 1).events == _names(13, 16)

    def test_a_caller_with_an_old_snapshot_is_refused(self, queue: Queue, conn: Connection) -> None:
        conn.execute("begin isolation level repeatable read")
        with pytest.raises(psycopg.errors.InvalidTransactionState, match="READ COMMITTED"):
            queue.take(conn)
        conn.execute("rollback")


class TestOneCommit:
    def test_a_commit_that_was_not_declared_is_refused(
        self, queue: Queue, conn: Connection
    ) -> None:
        """A handler that says COMMIT would finish what it has not handled (Q4)."""
        conn.execute("begin")
        queue.take(conn)
        with pytest.raises(psycopg.Error) as refused:
            conn.execute("commit")
        assert refused.value.sqlstate == "GL001"
        assert queue.work(conn).events == _names(1, 4)

    def test_an_acknowledgement_rolls_back_with_the_effects(
        self, queue: Queue, conn: Connection
    ) -> None:
        receipt = queue.reserve(conn)[0][0]
        conn.execute("begin")
        assert queue.call(conn, "acknowledge", receipt) == 1
        conn.execute("rollback")
        assert queue.call(conn, "acknowledge", receipt) == 1


class TestParts:
    def test_a_part_of_a_block_does_not_wait_for_a_full_one(
        self, queue: Queue, conn: Connection
    ) -> None:
        for n in range(5):
            assert queue.work(conn, n * 4 + 1).outcome == "claimed"
        publish(conn, "mails", 21, 22)
        assert queue.work(conn, 21).events == _names(21, 22)
        assert queue.work(conn, 23).outcome == "idle"
        publish(conn, "mails", 23, 26)
        assert queue.work(conn, 23).events == _names(23, 24), "the rest of the block"
        assert queue.work(conn, 25).events == _names(25, 26)

    def test_a_pass_that_finds_nothing_keeps_no_lock_of_what_comes_next(
        self, queue: Queue, conn: Connection, open_session: Sessions
    ) -> None:
        for n in range(5):
            queue.work(conn, n * 4 + 1)
        one = open_session()
        one.execute("begin")
        assert queue.take(one).outcome == "idle"
        publish(conn, "mails", 21, 24)
        assert queue.work(conn).events == _names(21, 24)
        one.execute("rollback")

    def test_a_claim_over_two_segments_has_what_it_says(
        self, queue: Queue, conn: Connection
    ) -> None:
        publish(conn, "mails", 21, 22)
        publish(conn, "mails", 23, 40)
        conn.execute("begin")
        pieces = conn.execute(
            "select first_offset, last_offset, base_offset, cardinality(message_ids), unit_ends"
            " from gapless.take_next('sender', %s, 0, %s, 4, 4, 21) where outcome = 'claimed'",
            [queue.topic_id, queue.lease],
        ).fetchall()
        conn.execute("rollback")
        assert pieces == [(21, 24, 21, 2, "11"), (21, 24, 23, 2, "11")]
        assert queue.work(conn, 21).events == _names(21, 24)

    def test_the_end_of_the_log_keeps_no_lock_of_what_comes_next(
        self, queue: Queue, conn: Connection, open_session: Sessions
    ) -> None:
        """A worker that found its work by the pass from the floor is no obstacle to new events."""
        one, two = open_session(), open_session()
        two.execute("begin")
        gap = queue.take(two)
        for n in range(1, 5):
            queue.work(conn, n * 4 + 1)
        publish(conn, "mails", 21, 22)
        assert queue.work(conn, 21).events == _names(21, 22)
        two.execute("rollback")
        one.execute("begin")
        assert queue.take(one).events == gap.events
        publish(conn, "mails", 23, 24)
        assert queue.work(conn, 23).events == _names(23, 24)
        one.execute("rollback")


class TestFloor:
    def test_it_never_passes_what_is_open_or_in_hand(
        self, queue: Queue, conn: Connection, open_session: Sessions
    ) -> None:
        """Q3."""
        one = open_session()
        queue.work(conn)
        one.execute("begin")
        queue.take(one)  # 5 to 8
        reserved = queue.reserve(conn, 4)[0][0]  # 9 to 12
        queue.work(conn, 13)
        queue.sweep(conn)  # now and then a client does
        assert queue.floor(conn) == 5
        one.execute("select set_config('gapless.finished', pg_current_xact_id()::text, true)")
        one.execute("commit")
        assert (queue.sweep(conn), queue.floor(conn)) == (4, 9)
        assert queue.sweep(conn) == 0, "a reservation in hand is not finished"
        queue.call(conn, "acknowledge", reserved)
        assert (queue.sweep(conn), queue.floor(conn)) == (8, 17)

    def test_only_one_sweeps(self, queue: Queue, conn: Connection, open_session: Sessions) -> None:
        one = open_session()
        queue.work(conn)
        one.execute("begin")
        assert queue.sweep(one) == 4
        assert queue.sweep(conn) == 0
        one.execute("rollback")
        assert queue.sweep(conn) == 4


class TestIdle:
    def test_takers_without_work_write_nothing(self, conn: Connection) -> None:
        queue = make(conn, events=0, block=4)
        conn.execute("vacuum")  # what a look prunes of the catalogue is no queue's
        before = None
        for n in range(64):
            if n == 8:
                before = conn.execute("select pg_current_wal_insert_lsn()").fetchone()
            conn.execute("begin")
            assert queue.take(conn).outcome == "idle"
            assert queue.take(conn, 1).outcome == "idle"
            assert queue.reserve(conn) == []
            xid = conn.execute("select pg_current_xact_id_if_assigned()").fetchone()
            assert xid == (None,)
            conn.execute("rollback")
        assert queue.sweep(conn) == 0
        assert conn.execute("select pg_current_wal_insert_lsn()").fetchone() == before

    def test_a_pause_holds_at_once(self, queue: Queue, conn: Connection) -> None:
        queue.work(conn)
        conn.execute("select gapless.pause('sender')")
        assert queue.work(conn, 5).outcome == "idle"
        assert queue.work(conn).outcome == "idle"
        assert queue.reserve(conn) == []
        queue.sweep(conn)
        assert queue.work(conn).outcome == "idle", "a sweep keeps the pause"
        conn.execute("select gapless.resume('sender')")
        assert queue.work(conn, 5).events == _names(5, 8)


def test_whoever_comes_to_a_finished_block_continues_behind_all_that_is_taken(
    conn: Connection,
) -> None:
    """Also where a block is one event, so that the next offset is the next block."""
    queue = make(conn, events=8, block=1)
    assert [queue.work(conn, n, most=1).offsets for n in (1, 2, 3)] == [(1, 1), (2, 2), (3, 3)]
    conn.execute("set statement_timeout = '5 s'")
    assert queue.work(conn, 1, most=1).offsets == (4, 4)
