"""A queue of one partition and its driver, in this process, by a clock that a test moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless.consume.job import Step
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.patience import Patience
from gapless.features.queue import drive, outside
from gapless.features.queue.drive import QueueDriver
from gapless.features.queue.place import open_queue
from support.patience import patience
from support.queue import Queue, make, publish
from support.turn import terms

Fault = Callable[[Connection[Any] | None], None]
VISIBLE_S = 10.0
CONFLICT_AT_COMMIT = """
create table late (n int);
create function late() returns trigger language plpgsql as $$ begin raise sqlstate '40001'; end $$;
create constraint trigger late after insert on late deferrable initially deferred
  for each row execute function late();
"""


def raises(error: BaseException) -> Fault:
    """Return the fault of a handler that raises this."""

    def fault(_conn: object) -> None:
        raise error

    return fault


def runs(statement: str) -> Fault:
    """Return the fault of a handler that executes this."""

    def fault(conn: Connection[Any] | None) -> None:
        assert conn is not None
        conn.execute(statement.encode())

    return fault


class Driven:
    """The driver, the calls of its handler by offset, and what it said to have in hand at each.

    faults: by offset, the faults of the attempts at that event, in order. takes_s: how long a
    call takes. agreed: terms beside the options of the handler.
    """

    def __init__(self, conn: Connection[Any], events: int, block: int, **options: Any) -> None:
        self.conn = conn
        conn.execute("create table effect (n bigint)")
        conn.execute("create table once (n int primary key deferrable initially deferred)")
        conn.execute("insert into once values (0)")
        conn.execute(CONFLICT_AT_COMMIT)
        self.queue: Queue = make(conn, events=events, block=block)
        self.events = events
        self.calls: list[int] = []
        self.faults: dict[int, list[Fault]] = {}
        self.held = (0, 0, 0)
        self.now_s = 1000.0
        self.takes_s = 0.0
        self.running: dict[int, SimpleQueue[Fault]] = {}
        self.goes_on = Event()
        self.options = options
        self.drive()

    def drive(self, conn: Connection[Any] | None = None, **more: Any) -> None:
        """Begin anew, as a worker does: with these options of the handler, on this session."""
        said = self.options | more
        agreed, is_patient = said.pop("agreed", {}), said.pop("is_patient", False)
        waits, wait_period_s = said.pop("waits", False), said.pop("wait_period_s", 3.0)
        said = {"topic": "mails", "group": "sender", "mode": "queue", "batch_size": 4} | said
        is_outside = said.get("delivery") == "at-least-once"
        function = self.call_outside if is_outside else self.call
        made: Handler = gapless.handler(**said)(function)
        self.session = conn or self.conn
        queue = open_queue(
            self.session, made, terms(made, **agreed), "sender", worker="me", reserve_s=60.0,
            holds=self.hold, patience=Patience() if is_patient else None,
        )  # fmt: skip
        wake = None if waits else self.goes_on.set
        self.driver = QueueDriver(queue, wait_period_s=wait_period_s, wake=wake)

    def hold(self, *held: int) -> None:
        self.held = held  # type: ignore[assignment]

    # -- the handler ------------------------------------------------------------------------------

    def call(self, unit: gapless.Unit, conn: Connection[Any]) -> None:
        """Write the effect, then fail as it is planned; what is in hand was told before."""
        offset = unit.first_offset
        self.calls.append(offset)
        self.now_s += self.takes_s
        lease, first, last = self.held
        assert lease == self.queue.lease
        assert first <= offset <= last
        conn.execute("insert into effect values (%s)", [offset])
        if unit.attempt <= len(faults := self.faults.get(offset, [])):
            faults[unit.attempt - 1](conn)

    def call_outside(self, unit: gapless.Unit) -> None:
        """Run until the test ends it."""
        offset = unit.first_offset
        self.calls.append(offset)
        ends = self.running.setdefault(offset, SimpleQueue())
        try:
            ends.get(timeout=patience(30))(None)
        finally:
            self.running.pop(offset, None)

    def end(self, *offsets: int, by: Fault = lambda _: None) -> None:
        """Let calls end so, and wait until the driver is woken for each."""
        for offset in offsets:
            self.goes_on.clear()
            self.running[offset].put(by)
            assert self.goes_on.wait(patience(30))

    def until_running(self, *offsets: int) -> None:
        """Wait until exactly these calls are under way."""
        give_up = Event()
        for _ in range(int(patience(30) * 100)):
            if set(self.running) == set(offsets):
                return
            give_up.wait(0.01)
        pytest.fail(f"{sorted(self.running)} are called, not {offsets}")

    # -- what comes of it -------------------------------------------------------------------------

    def turn(self, **more: Any) -> Step:
        """Take a turn; nothing is in hand afterwards, if calls are made within it."""
        done = self.driver.turn(**more)
        if self.options.get("delivery") != "at-least-once":
            assert self.held == (0, 0, 0)
            assert not self.driver.has_attempt
        return done

    def drain(self) -> Counter[str]:
        """Take turns, and look, until nothing is left to do now; return the sums of what they say."""
        total: Counter[str] = Counter()
        idle = 0
        for _ in range(200):
            done = self.turn()
            idle = idle + 1 if done.outcome == "idle" else 0
            if idle == 2:
                return total
            if idle:
                self.driver.wake()
            for name in ("events", "units", "handled", "dead", "waiting", "asked"):
                total[name] += getattr(done, name)
        pytest.fail("it never rests")

    def effects(self) -> list[int]:
        return [n for (n,) in self.conn.execute("select n from effect order by 1").fetchall()]

    def states(self) -> dict[int, str]:
        """What is set aside, by offset."""
        rows = self.conn.execute("select first_offset, state from gapless.dead_letter order by 1")
        return dict(rows.fetchall())

    def due_now(self) -> None:
        self.conn.execute(
            "update gapless.dead_letter set next_attempt_ts = now() where state = 'waiting'"
        )

    def died(self, first: int, last: int, times: int = 1) -> None:
        """Note that so many workers died with these in hand."""
        self.conn.execute(
            "insert into gapless.queue_range (lease_no, first_offset, last_offset, tries, deadline, holder)"
            " values (%s, %s, %s, %s, '-infinity', 'dead')",
            [self.queue.lease, first, last, times],
        )

    def publish(self, count: int = 1) -> None:
        publish(self.conn, "mails", self.events + 1, self.events + count)
        self.events += count


Make = Callable[..., Driven]


@pytest.fixture
def driven(conn: Connection[Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make a queue of so many events, in blocks of so many, and a driver with these options."""
    made: list[Driven] = []

    def make_one(events: int, block: int = 64, **options: Any) -> Driven:
        one = Driven(conn, events, block, **options)
        made.append(one)
        for module in (drive, outside):
            monkeypatch.setattr(module, "monotonic", lambda: one.now_s)
        return one

    yield make_one
    for one in made:
        for ends in list(one.running.values()):
            ends.put(lambda _: None)


__all__ = ["VISIBLE_S", "Driven", "Fault", "Make", "driven", "raises", "runs"]
