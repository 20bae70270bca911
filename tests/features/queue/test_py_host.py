"""A worker of a queue: how it obeys, slows down, and goes on after what passes; by a clock that a test moves."""

import os
import time
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from features.queue.driven import Driven, Make, driven, raises, runs
from features.queue.holes import lose_event
from gapless.db.connect import connect
from gapless.features.queue import worker as module
from gapless.features.queue.worker import QueueSpec, _Host, _Serving
from gapless.settings import Settings
from gapless.worker.board import Board
from gapless.worker.failure_backoff import BRAKE_S_MIN, BRAKE_UNITS
from gapless.worker.spec import ExitCode
from gapless.worker.wakeup import Wakeup
from support.queue import publish

__all__ = ["driven"]

SLOT = 1
REFUSES = raises(ValueError("no"))
CONFLICTS = runs("do $$ begin raise sqlstate '40001'; end $$")
OUTSIDE: dict[str, Any] = {"delivery": "at-least-once", "concurrency": 2, "visibility_s": 60.0}
ERRORS = "select distinct error from gapless.lease where error is not null"


class Worker:
    """A host of the driver of `one`, with the end of its pipe that the supervisor has."""

    def __init__(self, one: Driven, supervisor_pid: int) -> None:
        self.one = one
        queue = one.driver._queue
        spec = QueueSpec(
            dsn="", supervisor_pid=supervisor_pid, close_fds=(), slot=SLOT, settings=Settings(),
            group_id="sender", worker="me", handler=queue.handler, terms=queue.terms,
        )  # fmt: skip
        self.board = Board(2)
        self.orders, pipe = Pipe()
        self.serving = _Serving(spec, self.board, one.driver)
        self.wakeup = Wakeup()
        self.host = _Host(self.serving, pipe, self.wakeup)

    def turn(self) -> float:
        """Take a turn; return in how many seconds the next one is."""
        assert self.host.next().turn() is None
        self.host.took(self.serving, None)
        if not self.one.driver.going_on:
            assert self.board.work_ms(SLOT) == 0
        return self.serving.due_s - self.one.now_s


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Worker]]:
    made: list[Worker] = []

    def make(one: Driven, supervisor_pid: int | None = None) -> Worker:
        monkeypatch.setattr(module, "monotonic", lambda: one.now_s)
        monkeypatch.setattr(time, "monotonic_ns", lambda: int(one.now_s * 1e9))
        made.append(Worker(one, os.getppid() if supervisor_pid is None else supervisor_pid))
        return made[-1]

    yield make
    for each in made:
        each.orders.close()


def test_told_to_end_it_ends_when_nothing_is_in_hand(
    driven: Make, work: Callable[..., Worker]
) -> None:
    one = driven(3, **OUTSIDE)
    worker = work(one)
    assert worker.host.over() is None
    assert not worker.host.hurries()
    worker.serving._try_later(psycopg.errors.SerializationFailure("busy"))
    assert worker.serving.has_trouble
    worker.turn()
    one.until_running(1, 2)
    assert not worker.serving.has_trouble, "calls may take long; new events are heard meanwhile"
    one.now_s += 5
    assert worker.board.work_ms(SLOT) != 0, "a call that hangs is work"
    worker.orders.send_bytes(b"drain")
    assert worker.host.over() is None
    assert worker.host.hurries()
    assert worker.serving.due_s <= one.now_s
    one.end(1, 2)
    worker.turn()
    assert (one.calls, worker.board.completed(SLOT)) == ([1, 2], 1)
    assert worker.host.over() == ExitCode.DRAINED


def test_the_end_of_its_supervisor_ends_it(driven: Make, work: Callable[..., Worker]) -> None:
    one = driven(0)
    orphan = work(one, supervisor_pid=1)
    assert orphan.host.hurries()
    assert orphan.host.over() == ExitCode.ORPHANED
    worker = work(one)
    worker.orders.close()
    assert worker.host.hurries()
    assert worker.host.over() == ExitCode.DRAINED


def test_nothing_but_failures_slow_it_down(
    driven: Make, work: Callable[..., Worker], conn: Connection[Any]
) -> None:
    one = driven(BRAKE_UNITS + 4, agreed={"brake_keys": 1})
    one.faults = {n: [REFUSES] for n in range(1, BRAKE_UNITS + 3)}
    worker = work(one)
    while not worker.serving.has_trouble:
        worker.turn()
        assert len(one.calls) < 6 * BRAKE_UNITS
    ((said,),) = conn.execute(ERRORS).fetchall()
    assert said.startswith("retrying: a worker of this queue slowed down until ")
    called = len(one.calls)
    for rest_s in (BRAKE_S_MIN, BRAKE_S_MIN * 2):
        assert 0 < worker.turn() <= rest_s
        assert len(one.calls) == called, "it rests"
        one.now_s += 2 * BRAKE_S_MIN
        one.driver.wake()
        worker.turn()
        called = len(one.calls)
    one.now_s += 60
    one.faults.clear()
    while worker.serving.has_trouble:
        one.driver.wake()
        worker.turn()
    assert conn.execute(ERRORS).fetchall() == []
    assert worker.board.handled_s(SLOT) == one.now_s


def test_what_passes_is_tried_again_and_said_now_and_then(
    driven: Make, work: Callable[..., Worker], caplog: pytest.LogCaptureFixture
) -> None:
    one = driven(2)
    one.faults = {1: [CONFLICTS]}
    worker = work(one)
    lines = []
    for _ in range(31):
        assert worker.turn() > 0
        lines.append(len(caplog.messages))
    assert lines[:4] == [1, 1, 2, 2]
    assert (lines[8], lines[9], lines[28], lines[29], lines[30]) == (2, 3, 3, 4, 4)
    assert worker.serving.has_trouble
    one.faults.clear()
    worker.turn()
    assert not worker.serving.has_trouble
    assert one.effects() == [1, 2]


def test_what_does_not_pass_ends_it(
    driven: Make, work: Callable[..., Worker], conn: Connection[Any], dsn: str
) -> None:
    one = driven(1)
    with connect(dsn, role="test") as session:
        one.drive(session)
        one.faults = {1: [runs("select pg_terminate_backend(pg_backend_pid())")]}
        with pytest.raises(psycopg.OperationalError):
            work(one).turn()
    one.drive(conn)
    conn.execute("alter function gapless.queue_places rename to nowhere")
    with pytest.raises(psycopg.errors.UndefinedFunction):
        work(one).turn()


def test_at_a_hole_the_other_partitions_are_served(
    driven: Make,
    work: Callable[..., Worker],
    conn: Connection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = driven(2)
    lose_event(conn, "e1")
    assert work(one).turn() == 0
    (said,) = caplog.messages
    assert said.startswith("queue worker sender: stopped: ")


def test_what_comes_wakes_it_unless_its_turn_is_put_off_on_purpose(
    driven: Make, work: Callable[..., Worker], conn: Connection[Any], dsn: str
) -> None:
    one = driven(1)
    with connect(dsn, role="test") as session:
        one.drive(session)
        worker = work(one)
        worker.turn()
        while worker.turn() <= 0:
            pass
        publish(conn, "mails", 2, 2)
        worker.host.wait(one.now_s + 1)
        assert worker.serving.due_s == one.now_s
        one.faults = {2: [CONFLICTS]}
        assert worker.turn() > 0
        publish(conn, "mails", 3, 3)
        worker.host.wait(one.now_s + 1)
        assert worker.serving.due_s > one.now_s
        worker.wakeup.ring()
        worker.host.wait(one.now_s + 1)
        assert worker.serving.due_s == one.now_s, "a call has ended"
