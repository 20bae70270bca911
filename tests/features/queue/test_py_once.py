"""Exactly once in a queue group: real supervisors and workers, kills, failures; the history is whole."""

import os
import random
import signal
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from time import monotonic
from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.consume.terms import agree
from gapless.consume.verdict.patience import CANCELLED_S, Patience
from gapless.db.connect import connect
from gapless.errors import UnreadyError
from gapless.features.queue.drive import QueueDriver
from gapless.features.queue.place import open_queue
from gapless.settings import Settings
from gapless.testing import drain
from support.fleet import until
from support.long import long_but
from support.patience import patience
from support.programs import queue_app as app
from support.supervisors import Runs


@pytest.mark.long
def test_q1_q4_workers_share_a_partition_and_kills_double_nothing(runs: Runs) -> None:
    """Two supervisors with three workers each; workers are killed all the time."""
    first = runs.start("once", workers=3)
    second = runs.start("once", workers=3)
    runs.until_workers(first, 3)
    numbers: list[int] = []
    chance = random.Random(19)
    killed = 0
    for _ in range(12):
        numbers += runs.publish(*[{"sleep": 0.002}] * 40)
        victims = [*runs.workers(first), *runs.workers(second)]
        if victims:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(victims), signal.SIGKILL)
                killed += 1
        runs.until_most_done(numbers)
    runs.until_done(numbers, 60)
    runs.until_empty("once")
    assert killed >= 6
    assert runs.done() == dict.fromkeys(numbers, 1)
    assert runs.dead("once") == {}
    served = runs.conn.execute("select count(distinct pid) from done").fetchone()
    assert served is not None
    assert served[0] >= 6


class TestPoison:
    @pytest.mark.long
    def test_an_event_that_kills_is_found_and_set_aside_unseen(self, runs: Runs) -> None:
        run = runs.start("once", workers=3, environ={"GAPLESS_MAXCRASHES": "2"})
        before = runs.publish(count=20)
        (poison,) = runs.publish({"do": "kill"})
        after = runs.publish(count=20)
        runs.until_done(before + after, 60)
        until(lambda: set(runs.dead("once")) == {poison}, "it is dead", within=runs.state)
        runs.until_empty("once")
        assert "its worker died, or lost its session" in runs.dead("once")[poison]
        assert runs.done() == dict.fromkeys(before + after, 1)
        runs.until_workers(run, 3)

    @pytest.mark.long
    def test_a_worker_that_hangs_is_ended(self, runs: Runs) -> None:
        environ = {"GAPLESS_MAXPROCESSINGMS": "700", "GAPLESS_MAXCRASHES": "1", "BATCH": "4"}
        runs.start("once", environ=environ)
        (hangs,) = runs.publish({"do": "hang"})
        numbers = runs.publish(count=20)
        runs.until_done(numbers, 40)
        until(lambda: set(runs.dead("once")) == {hangs}, "it is dead", within=runs.state)
        assert runs.done() == dict.fromkeys(numbers, 1)


@pytest.mark.parametrize("group", long_but(["once", "outside"], "once"))
@pytest.mark.parametrize(
    "event",
    [
        pytest.param({"do": "hang", "times": 1}, id="open"),
        pytest.param(
            {"do": "hang", "times": 2}, id="at which another died", marks=pytest.mark.long
        ),
        pytest.param({"do": "retry, then hang", "times": 2}, id="set aside"),
    ],
)
def test_a_killed_workers_events_are_in_other_hands_at_once(
    runs: Runs, group: str, event: dict[str, Any]
) -> None:
    """100 ms on a quiet machine; there is no timeout that has to pass, whatever it had in hand."""
    environ = {"VISIBILITY_S": "600", "GAPLESS_MAXPROCESSINGMS": "600000"}
    run = runs.start(group, workers=3, environ=environ)
    runs.until_workers(run, 3)
    (number,) = runs.publish(event)
    path = runs.folder / str(number)
    began = None

    def kill() -> None:
        nonlocal began
        pid = runs.until_hangs(number)
        path.unlink()
        (began,) = runs.conn.execute("select clock_timestamp()").fetchone() or (None,)
        os.kill(pid, signal.SIGKILL)

    for _ in range(event["times"] if event["do"] == "hang" else 1):
        kill()
    later = "select min(at) - %s::timestamptz from done where n = %s and at > %s"

    def took() -> timedelta | None:
        if path.exists():  # taken before the death was noted, and so once more at its first attempt
            kill()
        (found,) = runs.conn.execute(later, [began, number, began]).fetchone() or (None,)
        return found

    until(lambda: took() is not None, "others have it", within=runs.state)
    assert (took() or timedelta.max) < timedelta(seconds=patience(0.1))
    runs.until_empty(group)
    assert runs.dead(group) == {}


@pytest.mark.long
def test_sigterm_lets_a_worker_finish_what_it_has_in_hand(runs: Runs) -> None:
    run = runs.start("once", workers=1, environ={"BATCH": "1"})
    numbers = runs.publish(*[{"sleep": 1.0}] * 3)
    until(runs.done, "one is done", within=runs.state)
    assert runs.stop(run) == 0
    done = runs.done()
    assert 1 <= len(done) <= 3
    assert "killing" not in runs.logs()
    runs.start("once", workers=2)
    runs.until_done(numbers)
    assert runs.done() == dict.fromkeys(numbers, 1)


class TestByHand:
    @pytest.mark.long
    def test_seek_handles_again_what_is_behind_it(self, runs: Runs) -> None:
        run = runs.start("once")
        numbers = runs.publish(count=30)
        runs.until_done(numbers)
        until(lambda: runs.lag("once") == 0, "the floor has moved", within=runs.state)
        moves = ops.seek_paused(
            runs.conn, ops.GroupPlace.parse("once/jobs"), ops.EARLIEST, dsn=runs.dsn
        )
        assert sum(move.again for move in moves) == 30
        ops.resume(runs.conn, ops.GroupPlace.parse("once"))
        until(lambda: set(runs.done().values()) == {2}, "all twice", within=runs.state)
        assert runs.stop(run) == 0


@pytest.mark.long
def test_partitions_that_are_added_are_noticed(runs: Runs) -> None:
    runs.start("once")
    numbers = runs.publish(count=20)
    runs.until_done(numbers)
    ops.alter_topic(runs.conn, "jobs", partitions=5)
    numbers += runs.publish(count=60)
    runs.until_done(numbers)
    assert runs.done() == dict.fromkeys(numbers, 1)
    used = runs.conn.execute(
        "select count(distinct partition_id) from gapless.log_segment"
        " where topic_id = gapless.topic_id('jobs')"
    ).fetchone()
    assert used == (5,)


@pytest.mark.long
def test_queues_and_ordered_groups_in_one_app(runs: Runs) -> None:
    run = runs.start("once", "ordered", "preferred", workers=2)
    numbers = runs.publish(count=50)
    thrice = dict.fromkeys(numbers, 3)
    until(lambda: runs.done() == thrice, "all done, thrice", within=runs.state)
    runs.until_workers(run, 4)  # one of them may have done it all before the others are there
    held = runs.conn.execute(
        "select distinct group_id from gapless.lease where owner is not null or target is not null"
    ).fetchall()
    assert held == [("ordered",)]
    assert runs.stop(run) == 0


def test_one_claim_comes_in_the_order_of_the_log(runs: Runs) -> None:
    runs.publish(count=40)
    drain(runs.dsn, app.once)
    rows = runs.conn.execute("select n from done order by at").fetchall()
    order = [n for (n,) in rows]
    assert sorted(order) == list(range(1, 41))
    # Two partitions: the numbers go down only where another partition's claim begins.
    assert sum(a > b for a, b in pairwise(order)) <= 5


@pytest.mark.parametrize("always", [False, True], ids=["in a moment", "always"])
@pytest.mark.parametrize("which", [app.once, app.outside])
def test_cancelled_statements(
    runs: Runs, conn: Connection[Any], monkeypatch: pytest.MonkeyPatch, which: Any, *, always: bool
) -> None:
    """In one moment they cost nothing; again and again it is the event's own fault."""
    clock, cancels = [1000.0], 0
    monkeypatch.setattr("gapless.consume.job.monotonic", lambda: clock[0])

    def handle(unit: gapless.Unit, *_: object) -> None:
        nonlocal cancels
        with connect(runs.dsn, role="test") as own:
            if next(iter(unit)).payload["n"] == 2 and (always or cancels < 5):
                cancels += 1
                own.execute("select pg_cancel_backend(pg_backend_pid()), pg_sleep(10)")
            own.execute("insert into done (n) values (%s)", [next(iter(unit)).payload["n"]])

    handler = replace(which, function=handle)
    terms = agree(handler, Settings())
    more: Any = {"worker": "w", "reserve_s": 60.0, "patience": Patience()}
    group = which.group
    conn.execute("select gapless.create_group(%s, 'jobs', mode => 'queue')", [group])
    driver = QueueDriver(open_queue(conn, handler, terms, group, **more))
    runs.publish(count=3)
    conn.execute("select gapless.sequence_events()")
    ended = {1, 3} if always else {1, 2, 3}
    give_up_s = monotonic() + patience(10)
    while len(runs.dead(group)) < always or set(runs.done()) != ended:
        assert monotonic() < give_up_s, runs.state()
        with suppress(UnreadyError):
            driver.turn()
        assert clock[0] >= 1000.0 + CANCELLED_S or not runs.dead(group)
        conn.execute(
            "update gapless.dead_letter set next_attempt_ts = now() where state = 'waiting'"
        )
        clock[0] += CANCELLED_S / 3 if always else 0.03
        driver.wake()
    assert set(runs.dead(group)) == ({2} if always else set())


def test_an_idle_worker_writes_nothing(runs: Runs, conn: Connection[Any]) -> None:
    runs.publish(count=3)
    drain(runs.dsn, app.once)
    terms = agree(app.once, Settings())
    queue = open_queue(conn, app.once, terms, "once", worker="w", reserve_s=60.0)
    driver = QueueDriver(queue)
    driver.turn()

    def xid() -> Any:
        return conn.execute("select pg_snapshot_xmax(pg_current_snapshot())").fetchone()

    before = xid()
    for _ in range(20):
        driver.wake()
        assert driver.turn().outcome == "idle"
    assert xid() == before
