"""Reservations: who has one, how long it counts, what may be said with it, and what is refused in a sentence."""

from collections.abc import Callable
from datetime import timedelta
from threading import Thread

import psycopg
import pytest
from psycopg import Connection

from support.queue import Queue, join, make

Sessions = Callable[[], Connection]


def _refused(conn: Connection, text: str, *values: object) -> tuple[str | None, str]:
    with pytest.raises(psycopg.Error) as refused:
        conn.execute(text, values)
    return refused.value.sqlstate, str(refused.value).splitlines()[0]


def _lapse(queue: Queue, conn: Connection) -> None:
    conn.execute(
        "update gapless.queue_range set deadline = clock_timestamp() - interval '1 s'"
        " where lease_no = %s and deadline is not null",
        [queue.lease],
    )


def _clock(conn: Connection) -> float:
    row = conn.execute("select extract(epoch from clock_timestamp())::float8").fetchone()
    assert row is not None
    return float(row[0])


RUNS = "select gapless.acknowledge_runs(%s, %s, %s)"


class TestRuns:
    """Acknowledgements of a worker: runs of events, each of one receipt."""

    @pytest.mark.parametrize(
        ("lows", "highs", "left"),
        [
            ([1], [4], []),
            ([2], [3], [1, 4]),
            ([1, 3], [1, 4], [2]),
            ([1, 2, 3, 4], [1, 2, 3, 4], []),
        ],
    )
    def test_any_part_of_a_range(
        self, queue: Queue, conn: Connection, lows: list[int], highs: list[int], left: list[int]
    ) -> None:
        receipt = queue.reserve(conn, 4)[0][0]
        conn.execute(RUNS, [[receipt] * len(lows), lows, highs])
        held = conn.execute(
            "select first_offset, last_offset from gapless.queue_range"
            " where lease_no = %s and deadline is not null order by 1",
            [queue.lease],
        ).fetchall()
        assert [n for low, high in held for n in range(low, high + 1)] == left

    def test_all_or_none_and_only_its_holder(self, queue: Queue, conn: Connection) -> None:
        first = queue.reserve(conn)[0][0]
        second = queue.reserve(conn)[0][0]
        _lapse(queue, conn)
        (offset,) = conn.execute(
            "select c_offset from gapless.reserve(%s, %s, null, 1, '60 s', 'another', 'aside')",
            [queue.group, queue.topic_id],
        ).fetchone() or (0,)
        assert offset == 1
        before = queue.ranges(conn)
        for lost in ([second, first], [first]):
            firsts = [2, 1][-len(lost) :]
            assert _refused(conn, RUNS, lost, firsts, firsts)[0] == "GL003"
        assert queue.ranges(conn) == before
        conn.execute(RUNS, [[second], [2], [2]])
        assert _refused(conn, RUNS, [second], [2], [2])[0] == "GL003", "answered for already"


@pytest.mark.parametrize(("most", "gone"), [(1, 1), (4, 3)])
def test_what_is_missing_is_reserved_by_nobody(
    queue: Queue, conn: Connection, most: int, gone: int
) -> None:
    """A worker reserves in a statement of its own: there is no rollback but that of the error."""
    conn.execute("delete from gapless.outbox_message_t where event_type = %s", [f"e{gone}"])
    take = (
        "select * from gapless.take_next(%s, %s, 0, %s, 4, %s, 1, 'worker', gen_random_uuid(),"
        " clock_timestamp() + interval '60 s')"
    )
    said = _refused(conn, take, queue.group, queue.topic_id, queue.lease, most)
    assert said[0] == "GL410"
    assert f"offset {gone} of" in said[1]
    assert queue.ranges(conn) == []


class TestOneHolder:
    """Q2."""

    def test_none_comes_again_before_its_time(self, queue: Queue, conn: Connection) -> None:
        """Lapsed and put off events: a client that looks all the time gets them then, and not earlier."""
        for _ in range(19):
            assert queue.reserve(conn)
        began = _clock(conn)
        given = queue.reserve(conn, 1, "0.3 s")
        for put_off in (True, True, False):
            while not (again := queue.reserve(conn)):
                pass
            assert _clock(conn) - began >= 0.3
            assert again[0][3] == given[0][3]
            began = _clock(conn)
            if put_off:
                queue.call(conn, "release", again[0][0], timedelta(seconds=0.3))

    def test_what_is_in_hand_is_nobody_elses(self, queue: Queue, conn: Connection) -> None:
        first = queue.reserve(conn, 4)
        assert [row[3] for row in first] == ["e1", "e2", "e3", "e4"], "in offset order"
        assert [row[3] for row in queue.reserve(conn, 4)] == ["e5", "e6", "e7", "e8"]
        assert queue.work(conn).events == {"e9", "e10", "e11", "e12"}, "workers pass them too"

    def test_a_session_may_read_backslashes_as_it_likes(
        self, queue: Queue, conn: Connection
    ) -> None:
        conn.execute("set standard_conforming_strings = off")
        receipt = queue.reserve(conn)[0][0]
        assert queue.call(conn, "acknowledge", receipt) == 1

    def test_after_another_took_it_it_does_not(self, conn: Connection) -> None:
        queue = make(conn, events=1, block=4)
        old = queue.reserve(conn)[0][0]
        _lapse(queue, conn)
        new, _, attempt, name = queue.reserve(conn)[0]
        assert (attempt, name) == (2, "e1")
        for function in ("acknowledge", "release", "extend"):
            with pytest.raises(psycopg.Error) as refused:
                queue.call(conn, function, old)
            assert refused.value.sqlstate == "GL003"
        with pytest.raises(psycopg.Error, match="counts no more"):
            queue.call(conn, "reject", old, "late")
        assert queue.call(conn, "acknowledge", new) == 1

    def test_an_answer_that_is_not_committed_holds_its_event(
        self, conn: Connection, open_session: Sessions
    ) -> None:
        """Whoever answers late and whoever takes over meet at the row: one of them has it."""
        queue = make(conn, events=1, block=4)
        receipt = queue.reserve(conn)[0][0]
        _lapse(queue, conn)
        late = open_session()
        late.execute("begin")
        queue.call(late, "acknowledge", receipt)
        assert queue.reserve(conn) == [], "not waited for, and not taken"
        late.execute("rollback")
        assert queue.reserve(conn)[0][3] == "e1"

    @pytest.mark.long
    def test_who_waits_for_the_one_who_takes_over_has_lost(
        self, conn: Connection, open_session: Sessions
    ) -> None:
        queue = make(conn, events=1, block=4)
        receipt = queue.reserve(conn)[0][0]
        _lapse(queue, conn)
        taker, late = open_session(), open_session()
        taker.execute("begin")
        assert len(queue.reserve(taker)) == 1
        lost: list[str | None] = []

        def answer() -> None:
            try:
                queue.call(late, "acknowledge", receipt)
            except psycopg.Error as error:
                lost.append(error.sqlstate)

        thread = Thread(target=answer)
        thread.start()
        thread.join(0.3)
        assert thread.is_alive(), "it waits for the taker's transaction"
        taker.execute("commit")
        thread.join(10)
        assert lost == ["GL003"]

    def test_a_seek_takes_all_of_them(self, queue: Queue, conn: Connection) -> None:
        queue.work(conn, 5)
        receipt = queue.reserve(conn)[0][0]
        conn.execute("select * from gapless.seek('sender', to_end => 'earliest')")
        with pytest.raises(psycopg.Error) as refused:
            queue.call(conn, "acknowledge", receipt)
        assert refused.value.sqlstate == "GL003"
        assert (queue.ranges(conn), queue.floor(conn)) == ([], 1), "though the floor was there"
        conn.execute("select * from gapless.seek('sender', to_end => 'latest')")
        assert queue.floor(conn) == 21
        assert queue.work(conn, 1).outcome == "idle"

    def test_no_seek_while_a_worker_has_a_block(
        self, queue: Queue, conn: Connection, open_session: Sessions
    ) -> None:
        one = open_session()
        one.execute("begin")
        queue.take(one)
        state, _ = _refused(conn, "select * from gapless.seek('sender', to_end => 'latest')")
        assert state == "GL423"
        assert _refused(conn, "select gapless.drop_group('sender')")[0] == "GL423"
        one.execute("rollback")
        conn.execute("begin")
        conn.execute("select * from gapless.seek('sender', to_end => 'latest')")
        one.execute("begin")
        assert queue.take(one).outcome == "busy"
        one.execute("rollback")
        conn.execute("rollback")
        conn.execute("select gapless.drop_group('sender')")
        left = conn.execute("select count(*) from gapless.queue_floor").fetchone()
        assert left == (0,)


# The words of a client about a receipt and an offset: what is noted of that event then, and what is set aside.
SAYS: dict[str, tuple[str, str, tuple[str, int, str] | None]] = {
    "acknowledge": ("acknowledge({}, {}, {}, {})", "done", None),
    "release": ("release({}, {}, {}, c_offset => {})", "open", None),
    "later": ("release({}, {}, {}, '1 h', {})", "done", ("waiting", 0, "given back")),
    "reject": ("reject({}, {}, {}, 'bad', {})", "done", ("dead", 1, "bad")),
    "extend": ("extend({}, {}, {}, '2 h', {})", "held", None),
}


@pytest.mark.parametrize("how", SAYS)
@pytest.mark.parametrize("c_offset", [None, 1, 3])
def test_what_a_client_says(queue: Queue, conn: Connection, how: str, c_offset: int | None) -> None:
    """Of all events of the receipt, or of one; once, and by who has it, for its group and topic alone."""
    text, state, aside = SAYS[how]
    call = f"select gapless.{text}".replace("{}", "%s")
    join(conn, block=4, group="other", topic="mails")
    receipt = queue.reserve(conn, 4)[0][0]
    (refused, _) = _refused(conn, call, "other", "mails", receipt, c_offset)
    assert refused == "GL400"
    row = conn.execute(call, ["sender", "mails", receipt, c_offset]).fetchone()
    events = [1, 2, 3, 4] if c_offset is None else [c_offset]
    assert how == "extend" or row == (len(events),)
    noted = {n: what for first, last, what in queue.ranges(conn) for n in range(first, last + 1)}
    assert noted == dict.fromkeys(range(1, 5), "held") | dict.fromkeys(events, state)
    letters = "select first_offset, state, attempts, reason from gapless.dead_letter order by 1"
    assert conn.execute(letters).fetchall() == ([(n, *aside) for n in events] if aside else [])
    if how != "extend":
        again = _refused(conn, call, "sender", "mails", receipt, c_offset)
        assert again[0] == "GL003"


class TestAnswers:
    def test_one_event_of_several(self, queue: Queue, conn: Connection) -> None:
        receipt = queue.reserve(conn, 4)[0][0]
        assert queue.call(conn, "acknowledge", receipt, 2) == 1
        assert queue.ranges(conn) == [(1, 1, "held"), (2, 2, "done"), (3, 4, "held")]
        conn.execute(
            "select gapless.reject('sender', 'mails', %s, 'bad address', c_offset => 4)", [receipt]
        )
        assert queue.call(conn, "acknowledge", receipt) == 2, "what is left of it"
        letters = conn.execute(
            "select c_offset, status, reason, attempts from gapless.dead_letter_queue"
        ).fetchall()
        assert letters == [(4, "dead", "bad address", 1)]
        assert queue.sweep(conn) == 4

    def test_released_it_comes_at_once_and_counts_no_attempt(
        self, queue: Queue, conn: Connection
    ) -> None:
        receipt = queue.reserve(conn, 4)[0][0]
        queue.work(conn, 5)
        queue.work(conn, 9)
        queue.work(conn, 13)
        queue.work(conn, 17)
        assert queue.call(conn, "release", receipt) == 4
        again = queue.reserve(conn, 4)
        assert [(row[2], row[3]) for row in again] == [(1, f"e{n}") for n in range(1, 5)]

    def test_a_dead_one_is_redriven_by_a_client(self, conn: Connection) -> None:
        queue = make(conn, events=1, block=4)
        queue.call(conn, "reject", queue.reserve(conn)[0][0], "bad address")
        assert queue.reserve(conn) == []
        asked = conn.execute("select gapless.redrive_letter('sender', 'mails', 0, 1)").fetchone()
        assert asked == ("asked",)
        receipt, _, attempt, _ = queue.reserve(conn)[0]
        assert attempt == 2
        queue.call(conn, "acknowledge", receipt)
        states = conn.execute("select state from gapless.dead_letter").fetchall()
        assert states == [("redriven",)], "what was dead is kept as history"

    def test_nobody_answers_often_enough_and_it_is_dead(self, conn: Connection) -> None:
        """Poison that kills whoever takes it: alone after the first time, then given up."""
        queue = make(conn, events=3, block=4)
        assert len(queue.reserve(conn, 3)) == 3
        for round_no in (2, 3):
            _lapse(queue, conn)
            attempts = {}
            while rows := queue.reserve(conn, 3):
                assert len(rows) == 1, "alone, so that its neighbours do not suffer with it"
                attempts[rows[0][3]] = rows[0][2]
                if rows[0][3] != "e2":
                    queue.call(conn, "acknowledge", rows[0][0])
            assert attempts["e2"] == round_no
        _lapse(queue, conn)
        assert queue.reserve(conn) == []
        letters = conn.execute("select c_offset, status, attempts from gapless.dead_letter_queue")
        assert letters.fetchall() == [(2, "dead", 3)]
        assert queue.floor(conn) == 4, "a client that finds nothing sweeps"

    def test_a_worker_commits_effects_with_it(self, queue: Queue, conn: Connection) -> None:
        """begin_receipt(): undeclared it is refused; rolled back it counts as before (Q4)."""
        receipt = queue.reserve(conn)[0][0]
        conn.execute("begin")
        conn.execute("select gapless.begin_receipt(%s)", [receipt])
        with pytest.raises(psycopg.Error) as refused:
            conn.execute("commit")
        assert refused.value.sqlstate == "GL001"
        conn.execute("begin")
        xid = conn.execute("select gapless.begin_receipt(%s)", [receipt]).fetchone()
        assert xid is not None
        _lapse_is_seen = queue.reserve(conn)  # another event, not this one
        assert _lapse_is_seen[0][3] != "e1"
        conn.execute("select gapless.finish_units(%s, 1)", [xid[0]])
        conn.execute("commit")
        with pytest.raises(psycopg.Error) as lost:
            conn.execute("select gapless.begin_receipt(%s)", [receipt])
        assert lost.value.sqlstate == "GL003"


class TestMode:
    MAKE = "select gapless.create_group(%s, 'mails', mode => %s)"

    def test_another_block_size_waits_until_nothing_is_between(
        self, queue: Queue, conn: Connection, open_session: Sessions
    ) -> None:
        """A block is taken from its beginning on: cut differently, what is open between would be passed."""
        one = open_session()
        one.execute("begin")
        queue.take(one)
        queue.work(conn)
        change = "select gapless.create_group('sender', 'mails', mode => 'queue', block => 10)"
        look = "select block from gapless.queue_places('sender', %s)"
        conn.execute(change)
        assert conn.execute(look, [queue.topic_id]).fetchone() == (4,), "somebody has a block"
        one.execute("rollback")
        conn.execute(change)
        assert conn.execute(look, [queue.topic_id]).fetchone() == (4,), "1 to 4 are open"
        queue.work(conn)
        conn.execute(change)
        assert conn.execute(look, [queue.topic_id]).fetchone() == (10,)
        assert queue.work(conn).outcome == "moved", "who still cuts as before is told"
