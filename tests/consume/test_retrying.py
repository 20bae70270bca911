"""Units that were set aside and are due: their tries, their calls, and the ends of these, exactly once and at least once.

A unit of three events failed once, and is due again at once; its handler ends as a test says.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.pq import TransactionStatus

from gapless import failpoints
from gapless.consume.aside.retry import retry_aside
from gapless.consume.batch import Batch
from gapless.consume.job import Job
from gapless.consume.step import step
from gapless.consume.unit import Unit
from gapless.consume.verdict.policy import Policy
from gapless.lease import hold
from support.turn import turn
from support.world import Group, World, make_handler

REFUSED = ValueError("no")
OUTSIDE = pytest.mark.parametrize("outside", [False, True], ids=["exactly", "at least"])
Ends = BaseException | Callable[[Connection[Any]], object]
# It fails when only COMMIT itself is left.
MOODY = """
drop table if exists moody;
create table moody (sqlstate text);
create or replace function moody() returns trigger language plpgsql as $$ begin
  if upper(current_query()) = 'COMMIT' then
    raise exception 'only now' using errcode = new.sqlstate;
  end if;
  return null;
end $$;
create constraint trigger moody after insert on moody
  deferrable initially deferred for each row execute function moody();
"""
ASIDE = """
select state, attempts, crashes, round(extract(epoch from next_attempt_ts - last_failed_ts))::int
from gapless.dead_letter where group_id = %s
"""


def late(sqlstate: str) -> Callable[[Connection[Any]], object]:
    """Have COMMIT fail with it."""
    return lambda conn: conn.execute("insert into moody values (%s)", [sqlstate])


def ends(conn: Connection[Any]) -> None:
    conn.execute("rollback")


def sends(conn: Connection[Any]) -> None:
    """Publish in SQL, which does not tell for which unit."""
    conn.execute("select gapless.publish('orders', '1')")


class Aside:
    """A unit that was set aside, and the handler that is called with it again."""

    def __init__(self, world: World, group: Group) -> None:
        self.world, self.group = world, group
        self.ends: list[Ends | None] = [REFUSED, REFUSED]  # of the batch, and of the unit alone
        self.seen: list[Any] = []
        world.units(3)
        assert step(self.job()).waiting == 1
        self.seen.clear()

    def job(self, *, batch: bool = False, outside: bool = False, **said: Any) -> Job:
        policy = Policy(on_failure="retry", retry_delays_s=(0.0, 4.0), crashes_max=2)
        handler = make_handler(self._call, batch=batch)
        if outside:
            handler = make_handler(lambda unit: self._call(unit, None), delivery="at-least-once")
        group = self.group
        return turn(
            group.conn, group.assignment, handler, policy=policy, worker="w", former_end="killed", **said
        )  # fmt: skip

    def retry(self, **said: Any) -> str:
        return retry_aside(self.job(**said), 1)

    def _call(self, unit: Any, conn: Any) -> None:
        self.seen.append(unit)
        is_idle = self.group.conn.info.transaction_status == TransactionStatus.IDLE
        assert is_idle == (conn is None), "at least once it is called in no transaction"
        if conn is not None and isinstance(unit, Unit):
            self.group.effect(unit, conn)
        end = self.ends.pop(0) if self.ends else None
        if isinstance(end, BaseException):
            raise end
        if end is not None:
            end(conn)

    def has(self, change: str) -> None:
        set_it = f"update gapless.dead_letter set {change} where group_id = %s"
        self.world.conn.execute(set_it.encode(), [self.group.name])

    def found(self) -> Any:
        """Return how it stands; None: it was handled."""
        rows = self.world.rows(ASIDE, self.group.name)
        return rows[0] if rows else None

    def discard(self, *_: object) -> None:
        """Discard it, once."""
        failpoints.arm({})
        call = "select gapless.discard_letter(%s, %s, 0, 1, 'no', 'me')"
        self.world.conn.execute(call, [self.group.name, self.world.topic.name])

    def usurp(self, *_: object) -> None:
        """Let another session own the partition."""
        failpoints.arm({})
        with psycopg.connect(self.world.dsn, autocommit=True) as other:
            assert hold.install(other, self.group.successor(other)) is not None


@pytest.fixture
def aside(shared_world: World) -> Iterator[Aside]:
    world = shared_world.another_topic()
    world.conn.execute(MOODY)
    group = world.group()
    yield Aside(world, group)
    failpoints.arm({})
    group.conn.close()


WAITS = ("waiting", 1, 0, 0)


# -- its call -------------------------------------------------------------------------------------


@OUTSIDE
def test_it_is_called_once_more_and_counts_as_handled(aside: Aside, *, outside: bool) -> None:
    assert aside.found() == WAITS
    assert aside.retry(outside=outside) == "handled"
    assert aside.found() is None
    (unit,) = aside.seen
    assert (unit.first_offset, unit.last_offset, unit.attempt) == (1, 3, 2)
    assert unit.idempotency_key == f"{aside.group.assignment.partition}@1"
    assert [event.offset for event in unit] == [1, 2, 3]
    assert aside.group.effects() == ([] if outside else [1, 2, 3])


def test_it_is_told_its_attempt_and_its_timeline(aside: Aside) -> None:
    aside.has("attempts = 2, timeline = 4")
    assert aside.retry(batch=True) == "handled"
    (batch,) = aside.seen
    assert isinstance(batch, Batch)
    assert batch[0].attempt == 3
    assert batch[0].idempotency_key == f"{aside.group.assignment.partition}@1~4"


@pytest.mark.parametrize(("limit", "is_streamed"), [(2, True), (3, False)])
def test_a_large_one_is_read_while_it_is_handled(
    aside: Aside, limit: int, *, is_streamed: bool
) -> None:
    assert aside.retry(stream_above_events=limit) == "handled"
    (unit,) = aside.seen
    assert unit.is_streamed is is_streamed
    assert aside.group.effects() == [1, 2, 3]


def test_schemas_are_looked_at_before_a_call_outside(aside: Aside) -> None:
    looked: list[Any] = []

    class Guard:
        def look(self, conn: object, topic: str) -> None:
            looked.append((conn, topic, len(aside.seen)))

    job = aside.job(outside=True)
    guard: Any = Guard()
    assert retry_aside(replace(job, handler=replace(job.handler, guard=guard)), 1) == "handled"
    assert looked == [(aside.group.conn, aside.world.topic.name, 0)]


# -- not ours any more ----------------------------------------------------------------------------


@OUTSIDE
@pytest.mark.few(4)
@pytest.mark.parametrize("when", ["before", "aside.recorded"])
@pytest.mark.parametrize("outcome", ["gone", "fenced"])
def test_one_that_is_no_longer_ours_is_not_called(
    aside: Aside, outcome: str, when: str, *, outside: bool
) -> None:
    happens = aside.discard if outcome == "gone" else aside.usurp
    if when == "before":
        happens()
    else:
        failpoints.arm({when: happens})
    assert aside.retry(outside=outside) == outcome
    assert aside.seen == []


@pytest.mark.parametrize("outcome", ["gone", "fenced"])
@pytest.mark.parametrize("end", [None, REFUSED])
def test_one_that_is_no_longer_ours_when_its_call_has_ended(
    aside: Aside, outcome: str, end: Exception | None
) -> None:
    """At least once nothing is held during the call."""
    aside.ends = [end]
    failpoints.arm({"aside.handled": aside.discard if outcome == "gone" else aside.usurp})
    found = aside.retry(outside=True)
    assert found == ("gone" if end is not None else outcome)
    assert aside.found()[0] in {"waiting", "discarded"}


# -- it fails again -------------------------------------------------------------------------------


@OUTSIDE
@pytest.mark.parametrize(
    ("known", "outcome", "found"),
    [
        ("attempts = 1", "waiting", ("waiting", 2, 0, 4)),
        ("attempts = 2", "dead", ("dead", 3, 0, None)),
        ("died_ts = now()", "dead", ("dead", 2, 0, None)),
    ],
)
def test_one_that_fails_again_is_set_aside_again(
    aside: Aside, known: str, outcome: str, found: Any, *, outside: bool
) -> None:
    aside.has(known)
    aside.ends = [REFUSED]
    assert aside.retry(outside=outside) == outcome
    assert aside.found() == found
    assert aside.group.letters_have("reason") == {"ValueError: no"}
    (worker,), (duration_ms,) = map(aside.group.letters_have, ("worker", "duration_ms"))
    assert worker.startswith("w pid ")
    assert 0 < duration_ms < 60_000
    assert aside.group.effects() == []


@pytest.mark.parametrize("end", [ends, late("23514")], ids=["ends", "at COMMIT"])
def test_a_transaction_that_cannot_commit_is_its_failure(aside: Aside, end: Ends) -> None:
    aside.ends = [end]
    assert aside.retry() == "waiting"
    assert aside.found() == ("waiting", 2, 0, 4)


def test_lost_events_are_its_failure(aside: Aside) -> None:
    lost = "delete from gapless.dead_letter_event where c_offset = 2 and group_id = %s"
    aside.world.conn.execute(lost, [aside.group.name])
    assert aside.retry() == "waiting"
    (reason,) = aside.group.letters_have("reason")
    assert "2 of 3 events are left" in reason


# -- no failure of it -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "end", [psycopg.errors.SerializationFailure("conflict"), late("40001")], ids=["call", "COMMIT"]
)
def test_trouble_that_passes_is_no_attempt(aside: Aside, end: Ends) -> None:
    aside.ends = [end]
    with pytest.raises(psycopg.errors.SerializationFailure):
        aside.retry()
    assert aside.found() == WAITS
    assert aside.retry() == "handled"


def test_a_try_that_cannot_be_taken_back_hides_no_error(aside: Aside) -> None:
    """It counts as a death: the session is gone."""
    aside.ends = [lambda conn: conn.execute("select pg_terminate_backend(pg_backend_pid())")]
    with pytest.raises(psycopg.errors.AdminShutdown):
        aside.retry()
    assert aside.found() == ("waiting", 1, 1, 0)


def test_a_habit_just_learned_is_tried_once_more(aside: Aside) -> None:
    aside.ends = [sends, sends]
    assert aside.retry() == "handled"
    assert (len(aside.seen), aside.found()) == (2, None)


# -- what is due ----------------------------------------------------------------------------------
