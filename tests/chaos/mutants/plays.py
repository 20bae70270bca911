"""Short runs in which a mutant must show: by supervisors, or step by step by the test itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from psycopg import Connection

from chaos.app import make_handler
from chaos.chain_play import ChainPlay
from chaos.checker import Violation
from chaos.history import Begun, Inserting, Invoke, Outcome, Sent
from chaos.mutants.mutant import Play
from chaos.points.scenarios import PROVOKED_BY, work
from chaos.points.theatre import StuckError, Theatre
from chaos.points.traps import Action
from chaos.producer import Draft, Producer
from gapless.consume.read.backlog import Backlog
from gapless.consume.read.claim import Wanted
from gapless.consume.read.units import load_units
from gapless.consume.session import allow_commit, transaction
from gapless.consume.step import Step
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.db.connect import connect
from gapless.keys import Assignment
from gapless.lease import hold
from gapless.lease.member import Lease, Member
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import require_topic
from support.group import member_of, own
from support.turn import one_step
from support.turn import turn as make_turn

MUTANT_PATIENCE_S = 5.0
CHAINED = 160  # orders: enough for two neighbours that publish under one transaction_id

# -- by supervisors -------------------------------------------------------------------------------


def load(theatre: Theatre) -> list[Violation]:
    """Twelve orders, one of them poison, and no fault."""
    return to_the_end(theatre, lambda: work(theatre))


def passing_trouble(theatre: Theatre) -> list[Violation]:
    """Handlers meet a deadlock that is gone the next time."""
    once = str(theatre.folder / "ends" / "deadlock")
    orders = theatre.orders(1, deadlock=once)
    return to_the_end(theatre, lambda: theatre.publish(*orders))


def at(point: str, action: Action) -> Play:
    """A crash point."""

    def play(theatre: Theatre) -> list[Violation]:
        def provoke() -> None:
            theatre.rest()
            theatre.trap(point, action)
            PROVOKED_BY[point](theatre)
            theatre.until(lambda: theatre.sprung(point, action), f"somebody passes {point}")
            work(theatre)

        return to_the_end(theatre, provoke)

    return play


def to_the_end(theatre: Theatre, provoke: Any) -> list[Violation]:
    """A mutant may never come to rest: that is for the checker to say."""
    with suppress(StuckError):
        provoke()
        theatre.rest()
    return []


# -- by producers and the sequencer, by hand ------------------------------------------------------


@dataclass
class Pen:
    """A producer's transaction, written statement by statement."""

    theatre: Theatre
    conn: Connection[Any]
    attempt: str
    tags: tuple[str, ...]
    written: int = 0

    @classmethod
    @contextmanager
    def open(cls, theatre: Theatre, events: int) -> Iterator[Pen]:
        attempt = str(uuid4())
        tags = tuple(f"{attempt}/{number}" for number in range(events))
        key = theatre.keys[0]
        with connect(theatre.dsn, role="producer") as conn:
            sent = tuple(Sent(tag=tag, topic="t", key=key) for tag in tags)
            theatre.writer.write(Invoke(attempt=attempt, producer="p", order=attempt, events=sent))
            conn.execute("begin")
            row = conn.execute("select pg_current_xact_id()::text").fetchone()
            assert row is not None
            theatre.writer.write(Begun(attempt=attempt, xid=row[0]))
            conn.execute(
                "insert into chaos.business (attempt, producer, order_key, events)"
                " values (%s, 'p', %s, %s)",
                [attempt, attempt, events],
            )
            yield cls(theatre, conn, attempt, tags)

    def insert(self) -> None:
        self.theatre.writer.write(Inserting(attempt=self.attempt, first=self.written))
        event = NewEvent(payload={}, key=self.theatre.keys[0], event_type=self.tags[self.written])
        publish(self.conn, "t", event)
        self.written += 1

    def commit(self) -> None:
        self.conn.execute("commit")
        self.theatre.writer.write(Outcome(attempt=self.attempt, ended="ok"))


def crossed(theatre: Theatre) -> list[Violation]:
    """One transaction commits between two inserts of another."""
    with Pen.open(theatre, 2) as long, Pen.open(theatre, 2) as short:
        long.insert()
        short.insert()
        short.insert()
        short.commit()
        long.insert()
        long.commit()
    sequence(theatre.conn)
    return []


def overlapped(theatre: Theatre) -> list[Violation]:
    """The sequencer runs while a transaction is open that began before another one."""
    with Pen.open(theatre, 1) as long, Pen.open(theatre, 1) as short:
        long.insert()
        short.insert()
        short.commit()
        sequence(theatre.conn)
        long.commit()
    sequence(theatre.conn)
    sequence(theatre.conn)
    return []


# -- by owners, by hand ---------------------------------------------------------------------------


class Hands:
    """Members and workers' sessions of group g, in the test's own process."""

    def __init__(self, theatre: Theatre, stack: ExitStack) -> None:
        self.theatre = theatre
        self._stack = stack
        self.producer = Producer("p", lambda: self.session("producer"), theatre.writer)
        self.handler = make_handler("g", "t")

    def session(self, role: str = "worker") -> Connection[Any]:
        return self._stack.enter_context(connect(self.theatre.dsn, role=role))

    def member(self, name: str) -> Member:
        made = member_of(self.session("control"), "g", require_topic(self.theatre.conn, "t"), name)
        made.sync()
        return made

    def lease(self, member: Member, partition: int = 0) -> Lease:
        """Return the member's lease, which is planned for it."""
        return next(o for o in member.leases() if o.partition_id == partition)

    def own(self, conn: Connection[Any], member: Member) -> Assignment:
        """Take partition 0, from the lock to the fence."""
        return own(conn, member, self.lease(member))

    def evict(self, member: Member) -> None:
        """Remove a member as a peer would, although it lives: it was silent."""
        self.theatre.conn.execute(
            "delete from gapless.member where member_id = %s", [member.member_id]
        )

    def publish(self, orders: int, **payload: object) -> None:
        """Publish units of two events to partition 0; the last one, with a payload, is to die."""
        bad = (("poison", False), *payload.items()) if payload else ()
        for number in range(orders):
            items = bad if number == orders - 1 else ()
            drafts = [Draft(key=self.theatre.keys[0], payload=items, poison=bool(items))] * 2
            assert self.producer.order(str(uuid4()), drafts) == "ok"
        sequence(self.theatre.conn)

    def work(self, conn: Connection[Any], assignment: Assignment) -> Step:
        """Step until there is nothing to do; return the last step."""
        while (done := one_step(conn, assignment, self.handler)).outcome == "done":
            pass
        return done


@contextmanager
def hands(theatre: Theatre) -> Iterator[Hands]:
    with ExitStack() as stack:
        yield Hands(theatre, stack)


def late_owner(theatre: Theatre) -> list[Violation]:
    """An owner that was evicted, and whose session lost its lock, wakes up and goes on."""
    with hands(theatre) as by:
        former, next_ = by.session(), by.session()
        first = by.member("first")
        old = by.own(former, first)
        by.publish(2)
        by.work(former, old)
        by.evict(first)
        hold.unlock(former, lock_no(theatre))
        new = by.own(next_, by.member("second"))
        by.publish(2)
        by.work(next_, new)
        by.publish(2)
        by.work(former, old)
        by.work(next_, new)
    return []


def late_fence(theatre: Theatre) -> list[Violation]:
    """An owner sleeps between taking its lease and putting in its fence."""
    with hands(theatre) as by:
        former, next_ = by.session(), by.session()
        first = by.member("first")
        old = hold.take(former, by.lease(first).partition, first.member_id)
        assert old is not None
        by.evict(first)
        new = by.own(next_, by.member("second"))
        by.publish(2)
        by.work(next_, new)
        by.publish(2)
        hold.install(former, old)
        by.work(former, old)
        by.work(next_, new)
    return []


def robbery(theatre: Theatre) -> list[Violation]:
    """A partition is planned for a new member while its owner still works."""
    with hands(theatre) as by:
        owner, thief = by.session(), by.session()
        first = by.member("first")
        old = by.own(owner, first)
        first.drain()
        second = by.member("second")
        lease = by.lease(second)
        taken = hold.take(thief, lease.partition, second.member_id)
        by.publish(2)
        if taken is not None:
            hold.install(thief, taken)
            by.work(thief, taken)
        else:
            by.work(owner, old)
            hold.release(owner, old, lease.lease_no)
        first.leave()
    return []


def two_at_once(theatre: Theatre) -> list[Violation]:
    """Two sessions claim with the same fence; the second waits for the first one's commit."""
    with hands(theatre) as by:
        one, two = by.session(), by.session()
        fence = by.own(one, by.member("first"))
        by.publish(2)
        thread = threading.Thread(target=lambda: one_step(two, fence, by.handler))
        turn = make_turn(one, fence, by.handler)
        with transaction(one):
            claimed = Backlog().ask(one, fence, Wanted(turn.terms.batch_size))
            thread.start()
            waits = "select cardinality(pg_blocking_pids(%s)) > 0"
            theatre.until(lambda: theatre.value(waits, two.info.backend_pid), "the second waits")
            for unit in load_units(one, fence.partition, claimed, turn.terms):
                by.handler(unit, one)
            allow_commit(turn.conn, claimed.claim_xid, len(claimed.spans))
        thread.join()
    return []


def commits_itself(theatre: Theatre) -> list[Violation]:
    """A handler says COMMIT in the middle of a batch."""
    with hands(theatre) as by:
        conn = by.session()
        fence = by.own(conn, by.member("first"))
        by.publish(2, commit=True)
        by.publish(2)
        by.work(conn, fence)
    return []


def unbalanced(theatre: Theatre) -> list[Violation]:
    """Two members join."""
    with hands(theatre) as by:
        by.member("first")
        by.member("second")
        return theatre.check()


def deferred(theatre: Theatre) -> list[Violation]:
    """A unit breaks a constraint that is checked at COMMIT. Bound: two calls a unit."""
    theatre.conn.execute("create table public.once (n int unique deferrable initially deferred)")
    calls: list[int] = []
    with hands(theatre) as by:
        write = by.handler

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            calls.append(unit.first_offset)
            write(unit, conn)
            bad = any("deferred" in event.payload for event in unit)
            conn.execute("insert into public.once values (%s)", [1 if bad else unit.first_offset])

        by.handler = Handler(function=handle, topic="t", group="g")
        conn = by.session()
        fence = by.own(conn, by.member("first"))
        units = 16
        by.publish(units // 2, deferred=True)
        by.publish(units // 2)
        by.work(conn, fence)
    if len(calls) <= 2 * units:
        return []
    text = f"{len(calls)} calls for {units} units, one of them bad"
    return [Violation(invariant="I8", name="handled too often", text=text)]


def chained(theatre: Theatre) -> list[Violation]:
    """Three groups, one behind the other, in batches of many units; they publish in every way."""
    play = ChainPlay(theatre.dsn, theatre.conn, theatre.folder, partitions=(1, 1))
    with closing(play):
        play.play(CHAINED)
    return []


def lock_no(theatre: Theatre) -> int:
    return int(theatre.value("select lease_no from gapless.lease where partition_id = 0"))
