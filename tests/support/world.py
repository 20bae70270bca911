"""A topic and one group that a test works on by hand, step by step, without a supervisor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from time import monotonic, sleep
from typing import Any
from uuid import UUID, uuid4

from psycopg import Connection

from gapless.consume.batch import Batch
from gapless.consume.drive import Driver
from gapless.consume.read.backlog import Backlog
from gapless.consume.step import Step, step
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler, handler
from gapless.db.connect import connect
from gapless.keys import Assignment
from gapless.lease import hold
from gapless.lease.member import Member, ServedTopic, Timing
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic
from support.servers import until
from support.turn import one_step, one_step_alone, turn

TOPIC = "orders"
_HOUR_MS = 3_600_000
_TIMING = Timing(ttl_ms=_HOUR_MS, suspect_grace_ms=_HOUR_MS, reconnect_grace_ms=_HOUR_MS)
_groups = count(1)
_topics = count(1)

EFFECTS = """
create table public.effect (
  n bigint generated always as identity,
  group_id text not null default current_setting('test.group', true),
  c_offset bigint not null,
  unit_first bigint not null,
  top_xid text not null default pg_current_xact_id()::text
)
"""


@dataclass
class Group:
    """A consumer group of a test, whose session is the worker of one partition."""

    world: World
    conn: Connection[Any]
    member: Member
    assignment: Assignment
    name: str
    failing: set[int] = field(default_factory=set)
    calls: list[int] = field(default_factory=list)

    @property
    def handler(self) -> Handler:
        """Return a handler that writes an effect for each event, and fails as `failing` says."""
        return make_handler(self.record)

    @property
    def batch_handler(self) -> Handler:
        """Return the same as `handler`, for batches."""

        def take(batch: Batch, conn: Connection[Any]) -> None:
            self.calls.append(batch[0].first_offset)
            for unit in batch:
                self.effect(unit, conn)
            for unit in batch:
                self.refuse(unit)

        return make_handler(take, batch=True)

    def gone(self) -> None:
        """End its worker and its membership; the server ends the session a little later."""
        pid = self.conn.info.backend_pid
        self.conn.close()
        self.member.leave()
        is_left = "select exists (select from pg_stat_activity where pid = %s)"
        assert until(lambda: not self.world.value(is_left, pid))

    def record(self, unit: Unit, conn: Connection[Any]) -> None:
        self.calls.append(unit.first_offset)
        self.effect(unit, conn)
        self.refuse(unit)

    def effect(self, unit: Unit, conn: Connection[Any]) -> None:
        conn.execute(
            "insert into effect (group_id, c_offset, unit_first)"
            " select %s, o, %s from unnest(%s::bigint[]) o",
            [self.name, unit.first_offset, [event.offset for event in unit]],
        )

    def refuse(self, unit: Unit) -> None:
        if unit.first_offset in self.failing:
            raise ValueError(f"refused {unit.first_offset}")

    def step(self, what: Handler | None = None, /, **limits: Any) -> Step:
        return one_step(self.conn, self.assignment, what or self.handler, **limits)

    def step_alone(self, what: Handler | None = None, /, **limits: Any) -> Step:
        return one_step_alone(self.conn, self.assignment, what or self.handler, **limits)

    def drain(self, what: Handler | None = None, /, *, alone: bool = False, **limits: Any) -> int:
        """Step until idle; return how many steps that took."""
        take = self.step_alone if alone else self.step
        for done in count():
            before = self.next_offset()
            result = take(what, **limits)
            if result.outcome != "done":
                assert result.outcome == "idle"
                return done
            assert result.next_offset == self.next_offset() == before + result.events
            assert result.events > 0
        raise AssertionError

    def drive(self, what: Handler | None = None, /, *, until_s: float = 0.0, **limits: Any) -> None:
        """Take turns as a worker does, until nothing is left that is due within until_s."""
        driver = Driver(turn(self.conn, self.assignment, what or self.handler, **limits))
        give_up = monotonic() + until_s
        while True:
            outcome = driver.turn().outcome
            assert outcome != "fenced"
            if outcome == "idle" and not driver.has_due():
                if monotonic() >= give_up:
                    return
                sleep(0.01)

    def drain_to(self, offset: int) -> None:
        """Step until the event at `offset` is the next one; it must begin a unit."""
        while (left := offset - self.next_offset()) > 0:
            self.step(batch_size=left)
        assert self.next_offset() == offset

    def next_offset(self) -> int:
        return self.world.value(
            "select next_offset from gapless.consumer_offsets"
            " where group_id = %s and partition_id = %s",
            self.name,
            self.assignment.partition.partition_id,
        )

    def effects(self) -> list[int]:
        """Return the offsets of all effects, in the order in which they were written."""
        return [
            row[0]
            for row in self.world.rows(
                "select c_offset from effect where group_id = %s order by n", self.name
            )
        ]

    def letters(self) -> dict[int, str]:
        """Return the dead letters: offset to exception, in offset order."""
        return dict(
            self.world.rows(
                "select c_offset, exception from gapless.dead_letter_queue"
                " where group_id = %s order by c_offset",
                self.name,
            )
        )

    def states(self) -> dict[int, str]:
        """Return the units that were set aside: first offset to state."""
        return dict(
            self.world.rows(
                "select first_offset, state from gapless.dead_letter"
                " where group_id = %s order by 1",
                self.name,
            )
        )

    def sqlstates(self) -> set[Any]:
        """Return the SQLSTATEs of units that were set aside; None: of another error."""
        every = "select distinct sqlstate from gapless.dead_letter where group_id = %s"
        return {row[0] for row in self.world.rows(every, self.name)}

    def letters_have(self, column: str) -> set[Any]:
        """Return the different values of a column of the dead letters."""
        every = f"select distinct {column} from gapless.dead_letter_queue where group_id = %s"
        return {row[0] for row in self.world.rows(every, self.name)}

    def successor(self, conn: Connection[Any]) -> Assignment:
        """Take the lease again, as a new worker would: a higher epoch; its fence is not in yet."""
        found = hold.take(conn, self.assignment.partition, self.member.member_id)
        assert found is not None
        return found

    def assert_all_once(self, events: int) -> None:
        """I1, I6, I9: each event was handled or is dead, not both, none twice, in order."""
        effects, letters = self.effects(), self.letters()
        assert effects == sorted(set(effects)), "handled twice, or out of order"
        assert not set(effects) & set(letters), "both handled and dead"
        assert sorted([*effects, *letters]) == list(range(1, events + 1)), "lost"
        assert self.next_offset() == events + 1


class Reader:
    """Steps as a driver does: events read ahead in one step are there in the next.

    It continues with events read ahead, as a driver does within its time, if `continue_while`.
    """

    def __init__(self, group: Group, *, continue_while: bool = True) -> None:
        self.group = group
        self.continue_while = continue_while
        self.ahead = Backlog()

    def step(self, batch_size: int = 10, what: Handler | None = None, **limits: Any) -> Step:
        group = self.group
        limits["batch_size"] = batch_size
        called = turn(group.conn, group.assignment, what or group.handler, self.ahead, **limits)
        return step(called, continue_while=lambda: self.continue_while)


@dataclass
class World:
    """A fresh database with one topic, and an `effect` table for handlers to write to."""

    dsn: str
    conn: Connection[Any]
    topic: Topic

    @classmethod
    def make(cls, dsn: str, conn: Connection[Any], *, partitions: int = 1) -> World:
        conn.execute(EFFECTS)
        return cls(dsn, conn, ensure_topic(conn, TOPIC, partitions=partitions))

    def another_topic(self) -> World:
        """Return this database with a new topic, for tests that need no database of their own."""
        name = f"{TOPIC}-{next(_topics)}"
        return World(self.dsn, self.conn, ensure_topic(self.conn, name, partitions=1))

    def units(self, *sizes: int, **fields: Any) -> None:
        """Publish and sequence units of these sizes, each with a transaction_id of its own."""
        self.events(NewEvent(payload={"size": n}, transaction_id=id_, **fields)
                    for n in sizes for id_ in [uuid4()] for _ in range(n))  # fmt: skip

    def events(self, events: Iterable[NewEvent]) -> None:
        """Publish these events in one database transaction, and sequence them."""
        publish(self.conn, self.topic.name, list(events))
        sequence(self.conn)

    def group(self, partition_id: int = 0, *, start: str = "earliest") -> Group:
        """Return a new group, owned by a session of its own."""
        name = f"g{next(_groups)}"
        conn = connect(self.dsn, role="worker")
        found = ServedTopic(
            group_id=name, topic=self.topic.name, topic_id=self.topic.topic_id, start=start
        )
        member = Member(self.conn, [found], _TIMING, name="test", capacity=None)
        member.sync()
        lease = next(o for o in member.leases() if o.partition.partition_id == partition_id)
        assert hold.lock(conn, lease.lease_no)
        assignment = hold.take(conn, lease.partition, member.member_id)
        assert assignment is not None
        held = hold.install(conn, assignment)
        assert held is not None
        assert not held.unclean
        return Group(self, conn, member, assignment, name)

    def rows(self, sql: str, *params: object) -> list[Any]:
        return self.conn.execute(sql, params).fetchall()

    def value(self, sql: str, *params: object) -> Any:
        return self.rows(sql, *params)[0][0]


def make_handler(function: Callable[..., object], **options: Any) -> Handler:
    """Make a function a handler of the test's topic."""
    made: Handler = handler(topic=TOPIC, **options)(function)
    return made


def same_id(*counts: tuple[UUID | None, int]) -> list[NewEvent]:
    """Make runs of events: (transaction_id, number of events)."""
    return [
        NewEvent(payload={}, transaction_id=id_, key="k") for id_, n in counts for _ in range(n)
    ]
