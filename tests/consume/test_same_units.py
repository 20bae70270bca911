"""Who is handled with whom, and what dies, follows from the log alone (I5, I10).

Drawn: publishing transactions with users and explicit transaction_ids, when the sequencer runs, when
and by which driver a group works, batch sizes, and which events are poison. A model says which units
there are; what was handled together, and what died together, must be exactly that.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count, groupby
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection

from gapless.consume.batch import Batch
from gapless.consume.drive import Driver
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler, handler
from gapless.db.connect import connect
from gapless.features.replay.run import run_replay
from gapless.features.spark import task
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.testing import drain
from gapless.worker.session_loop import take_turns
from support.examples import examples
from support.turn import terms, turn
from support.world import Group, Reader, World

HISTORIES = 60
HISTORIES_LONG = 10_000
IDS = [UUID(int=n) for n in (1, 2)]
_names = count(1)

User = tuple[str | None, str | None]


@dataclass(frozen=True)
class New:
    """An event to publish."""

    user: User
    own_id: UUID | None
    is_poison: bool


@dataclass(frozen=True)
class Publish:
    """One publishing transaction."""

    events: tuple[New, ...]


@dataclass(frozen=True)
class Work:
    """The group works until it is idle."""

    driver: str
    batch_size: int
    by_batch: bool


Act = Publish | Work | Literal["sequence"]
USERS: list[User] = [("h", "a"), ("h", "b"), (None, "a"), ("h", None), (None, None)]
EVENT = st.builds(
    New,
    user=st.sampled_from([*USERS, ("h", "a"), ("h", "a")]),
    own_id=st.sampled_from([None, None, *IDS]),
    is_poison=st.integers(0, 11).map(lambda n: n == 0),
)
# Long runs of one user: longer than a batch, a claim's window, a segment.
RUN = st.tuples(EVENT, st.integers(1, 30)).map(lambda of: (of[0],) * of[1])
PUBLISH = st.builds(Publish, events=st.lists(EVENT, min_size=1, max_size=6).map(tuple) | RUN)
SINGLES = RUN.map(lambda events: [Publish(events=(each,)) for each in events])
DRIVERS = ["step", "reader", "alone", "driver", "spark"]
WORK = st.builds(
    Work,
    driver=st.sampled_from(DRIVERS),
    batch_size=st.sampled_from([1, 2, 3, 7, 20, 1000]),
    by_batch=st.booleans(),
)
ACTS = st.lists(
    PUBLISH.map(lambda each: [each]) | SINGLES | WORK.map(lambda w: [w]) | st.just(["sequence"]),
    min_size=1,
    max_size=12,
).map(lambda parts: [each for part in parts for each in part])


@dataclass(frozen=True)
class Logged:
    """An event as the log has it."""

    offset: int
    unit: tuple[object, ...]
    user: User
    is_poison: bool


LOG = """
select s.base_offset + u.n - 1, o.xid::text, o.transaction_id, o.host_id, o.user_id,
  o.event_type = 'poison'
from gapless.log_segment s
cross join unnest(s.message_ids) with ordinality u (id, n)
join gapless.outbox_message_t o on o.id = u.id
where s.topic_id = %s order by 1
"""


def read_log(world: World) -> list[Logged]:
    return [
        Logged(offset, (xid, own_id), (host, user), is_poison)
        for offset, xid, own_id, host, user, is_poison in world.rows(LOG, world.topic.topic_id)
    ]


def units(log: Sequence[Logged], group_by: str) -> list[list[Logged]]:
    """The model: neighbours of one (xid, transaction_id); by user, neighbours of one owner."""
    plain = [list(events) for _, events in groupby(log, key=lambda each: each.unit)]
    if group_by == "transaction":
        return plain
    merged: list[tuple[object, list[Logged]]] = []
    for unit in plain:
        users = {each.user for each in unit}
        owner = users.pop() if len(users) == 1 and next(iter(users))[1] is not None else None
        if merged and owner is not None and merged[-1][0] == owner:
            merged[-1][1].extend(unit)
        else:
            merged.append((owner, list(unit)))
    return [unit for _, unit in merged]


class History:
    """A topic, a group that works on it now and then, and what is to come of it."""

    def __init__(self, shared: World, group_by: str) -> None:
        self.world = shared.another_topic()
        self.group_by = group_by
        self.group = self.world.group()
        self.handled: list[list[int]] = []
        self.dead: set[int] = set()
        self.past = 0  # events the group has passed

    def make(self, name: str, *, by_batch: bool, batch_size: int) -> Handler:
        """A handler that writes which events it was given together, and refuses poison."""

        def write(unit: Unit, conn: Connection[Any]) -> None:
            conn.execute(
                "insert into effect (group_id, c_offset, unit_first)"
                " select %s, o, %s from unnest(%s::bigint[]) o",
                [name, unit.first_offset, [event.offset for event in unit]],
            )
            if any(event.event_type == "poison" for event in unit):
                raise ValueError("poison")

        def write_all(batch: Batch, conn: Connection[Any]) -> None:
            for unit in batch:
                write(unit, conn)

        function: Callable[..., None] = write_all if by_batch else write
        made: Handler = handler(
            topic=self.world.topic.name,
            group=name,
            batch=by_batch,
            batch_size=batch_size,
            group_by=self.group_by,
        )(function)
        return made

    def publish(self, act: Publish) -> None:
        events = [
            NewEvent(
                payload={},
                key="k",
                host_id=new.user[0],
                user_id=new.user[1],
                transaction_id=new.own_id,
                event_type="poison" if new.is_poison else "good",
            )
            for new in act.events
        ]
        publish(self.world.conn, self.world.topic.name, events)

    def work(self, act: Work) -> None:
        made = self.make(self.group.name, by_batch=act.by_batch, batch_size=act.batch_size)
        _DRIVE[act.driver](self.group, made)
        log = read_log(self.world)
        self.expect(units(log[self.past :], self.group_by))
        self.past = len(log)
        self.check(self.group.name)

    def expect(self, found: list[list[Logged]]) -> None:
        for unit in found:
            offsets = [each.offset for each in unit]
            if any(each.is_poison for each in unit):
                self.dead.update(offsets)
            else:
                self.handled.append(offsets)

    def check(self, name: str) -> None:
        rows = self.world.rows(
            "select unit_first, c_offset from effect where group_id = %s order by n", name
        )
        seen = [[o for _, o in part] for _, part in groupby(rows, key=lambda row: row[0])]
        assert seen == self.handled
        dead = self.world.rows(
            "select c_offset from gapless.dead_letter_queue where group_id = %s", name
        )
        assert {offset for (offset,) in dead} == self.dead

    def check_others(self) -> None:
        """A group that comes late, and a replay, find all of it at once."""
        self.handled, self.dead = [], set()
        self.expect(units(read_log(self.world), self.group_by))
        late = f"late-{next(_names)}"
        drain(self.world.dsn, self.make(late, by_batch=False, batch_size=3))
        self.check(late)
        again = f"again-{next(_names)}"
        made = self.make(again, by_batch=False, batch_size=5)
        self.world.conn.execute(
            "select gapless.create_replay(%s, %s)", [again, self.world.topic.name]
        )
        with connect(self.world.dsn, role="replay") as conn:
            run_replay(conn, again, made, terms(made), keep=True)
        self.check(again)


def _step(group: Group, what: Handler) -> None:
    group.drain(what)


def _reader(group: Group, what: Handler) -> None:
    reader = Reader(group)
    assert what.batch_size is not None
    while reader.step(what.batch_size, what).outcome == "done":
        pass


def _alone(group: Group, what: Handler) -> None:
    group.drain(what, alone=True)


def _driver(group: Group, what: Handler) -> None:
    driver = Driver(turn(group.conn, group.assignment, what))
    while driver.turn().outcome == "done":
        pass


def _spark(group: Group, what: Handler) -> None:
    """What a task of Spark does, in this process."""
    driver = Driver(turn(group.conn, group.assignment, what))
    work = task.Work(
        dsn=group.world.dsn,
        references=(),
        default_group=None,
        default_topic="",
        assignment=group.assignment,
        terms=terms(what),
        max_processing_ms=60_000,
        quota_s=60.0,
    )
    with task._watched(work):  # its alarm would end this process a minute later
        report = take_turns(task._Task(work, driver))
    assert report.error is None
    assert not report.fenced


_DRIVE: dict[str, Callable[[Group, Handler], None]] = {
    "step": _step,
    "reader": _reader,
    "alone": _alone,
    "driver": _driver,
    "spark": _spark,
}


def live(shared: World, group_by: str, acts: Sequence[Act]) -> None:
    history = History(shared, group_by)
    with closing(history.group.conn):
        for act in [*acts, "sequence", Work("step", 100, by_batch=False)]:
            if isinstance(act, Publish):
                history.publish(act)
            elif isinstance(act, Work):
                history.work(act)
            else:
                sequence(history.world.conn)
        history.check_others()


@settings(
    max_examples=examples(HISTORIES),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(acts=ACTS, group_by=st.sampled_from(["transaction", "user"]))
def test_a_unit_is_a_unit(shared_world: World, acts: list[Act], group_by: str) -> None:
    live(shared_world, group_by, acts)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@settings(
    max_examples=HISTORIES_LONG,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(acts=ACTS, group_by=st.sampled_from(["transaction", "user"]))
def test_a_unit_is_a_unit_in_ten_thousand_histories(
    shared_world: World, acts: list[Act], group_by: str
) -> None:
    live(shared_world, group_by, acts)
