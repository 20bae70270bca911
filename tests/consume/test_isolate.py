"""Units of which one failed, tried again with care: called together or apart, set aside, or left for another try (I9).

The log has five units of two events each, from offset 1 on; a handler fails as a test says.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import Connection

import gapless
from gapless.consume.isolate import give_up, isolate
from gapless.consume.job import Job, Redo, Step
from gapless.consume.session import TransactionBrokenError, transaction
from gapless.consume.unit import Unit
from gapless.consume.verdict.failure import Failure
from gapless.consume.verdict.policy import OnFailure, Policy, Verdict
from gapless.errors import BlockedError
from gapless.features.filters.stored import set_filter
from gapless.lease import hold
from gapless.log.filter import Filter
from support.turn import turn
from support.world import Group, World, make_handler

REFUSED = ValueError("no")
CONFLICT = psycopg.errors.SerializationFailure("conflict")
Fails = BaseException | Callable[[Connection[Any]], object]
# Deferred, so it fails when it is checked; or when only COMMIT itself is left.
TABLES = """
drop table if exists once, moody;
create table once (n int unique deferrable initially deferred);
create table moody (n int);
create or replace function moody() returns trigger language plpgsql as $$ begin
  if upper(current_query()) = 'COMMIT' then
    raise exception 'only now' using errcode = 'check_violation';
  end if;
  return null;
end $$;
create constraint trigger moody after insert on moody
  deferrable initially deferred for each row execute function moody();
"""
# The units with an effect, and whether each was written under a savepoint.
EFFECTS = """
select unit_first, xmin::text::bigint <> top_xid::bigint & 4294967295 from effect
where group_id = %s and c_offset = unit_first order by n
"""
ASIDE = """
select first_offset, state, attempts, reason, round(extract(epoch from next_attempt_ts - last_failed_ts))::int
from gapless.dead_letter where group_id = %s order by 1
"""


def late(conn: Connection[Any]) -> None:
    conn.execute("insert into once values (1), (1)")


def later(conn: Connection[Any]) -> None:
    conn.execute("insert into moody values (1)")


def ends(conn: Connection[Any]) -> None:
    conn.execute("rollback")


def sends(conn: Connection[Any]) -> None:
    """Publish in SQL, which does not tell for which of several units."""
    conn.execute("select gapless.publish('orders', '1')")


class Isolated:
    """A claim of units of which one failed, and the handler that is called with them again."""

    def __init__(self, world: World, group: Group) -> None:
        self.world, self.group = world, group
        self.fails: dict[int, Fails] = {}
        world.units(2, 2, 2, 2, 2)

    def job(self, on_failure: OnFailure = "dead-letter") -> Job:
        policy = Policy(on_failure=on_failure, retry_delays_s=(7.0,))
        handler = make_handler(self._handle)
        group = self.group
        return turn(group.conn, group.assignment, handler, policy=policy, units_per_commit=2)

    def redo(self, job: Job, units: int = 5, failed: int | None = None) -> Redo:
        """Return what a step that failed hands over: its units, with their events."""
        with suppress(psycopg.Rollback), transaction(job.conn):
            claimed, _ = job.backlog.claim(job.conn, job.assignment, job.terms, 10)
            raise psycopg.Rollback
        return Redo(spans=claimed.spans[:units], rows=claimed.rows, failed=failed)

    def __call__(
        self, units: int = 5, failed: int | None = None, on_failure: OnFailure = "dead-letter"
    ) -> Any:
        job = self.job(on_failure)
        return isolate(job, self.redo(job, units, failed))

    def _handle(self, unit: Unit, conn: Connection[Any]) -> None:
        self.group.calls.append(unit.first_offset)
        self.group.effect(unit, conn)
        fails = self.fails.get(unit.first_offset)
        if isinstance(fails, BaseException):
            raise fails
        if fails is not None:
            fails(conn)

    def effects(self) -> list[tuple[int, bool]]:
        return self.world.rows(EFFECTS, self.group.name)

    def aside(self) -> list[Any]:
        return self.world.rows(ASIDE, self.group.name)

    def is_untouched(self) -> bool:
        """Nothing was written, and the group is where it was."""
        return (self.effects(), self.aside(), self.group.next_offset()) == ([], [], 1)


@pytest.fixture
def isolated(shared_world: World) -> Iterator[Isolated]:
    world = shared_world.another_topic()
    world.conn.execute(TABLES)
    group = world.group()
    yield Isolated(world, group)
    group.conn.close()


def after(units: int, **aside: int) -> Step:
    handled = units - sum(aside.get(state, 0) for state in ("dead", "waiting", "parked"))
    return Step(
        outcome="done", events=2 * units, units=units, handled=handled, next_offset=1 + 2 * units, **aside
    )  # fmt: skip


def spans(redo: Any) -> tuple[list[int], Any]:
    """The units that are to be tried again, by their first offsets, with their events; or why none is."""
    assert isinstance(redo, Redo)
    assert redo.hopeless or redo.learned or [row[0] for row in redo.rows or ()]
    return [span.first_offset for span in redo.spans], redo.hopeless and type(redo.hopeless)


# Units, the first that failed, if it is known; those called together, those apart.
RUNS: list[tuple[int, int | None, list[int], list[int]]] = [
    (5, None, [], [1, 3]), (5, 0, [], [1, 3]), (5, 1, [1], [3, 5]), (5, 2, [1, 3], [5, 7]),
    (5, 4, [1, 3, 5, 7], [9]), (1, 0, [], [1]), (2, 1, [1], [3]),
]  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize(("units", "failed", "together", "apart"), RUNS)
def test_those_before_the_first_failure_run_together(
    isolated: Isolated, units: int, failed: int | None, together: list[int], apart: list[int]
) -> None:
    count = len(together) + len(apart)
    assert isolated(units, failed) == after(count)
    assert isolated.effects() == [*((n, False) for n in together), *((n, True) for n in apart)]
    assert isolated.group.next_offset() == 1 + 2 * count


# How a unit failed; under which policy; how it counts, and what is set aside, if anything.
FATES: dict[str, tuple[BaseException, OnFailure, dict[str, int], list[Any]]] = {
    "dead": (REFUSED, "dead-letter", {"dead": 1}, [(5, "dead", 1, "ValueError: no", None)]),
    "dead, by wish": (
        gapless.DeadLetter("no"), "retry", {"dead": 1}, [(5, "dead", 1, "gapless.DeadLetter: no", None)],
    ),
    "to be tried again": (
        REFUSED, "retry", {"waiting": 1}, [(5, "waiting", 1, "ValueError: no", 7)],
    ),
    "to be tried again, by wish": (
        gapless.Retry("no", after=3), "block", {"waiting": 1, "asked": 1},
        [(5, "waiting", 1, "gapless.Retry: no", 3)],
    ),
    "as if handled": (gapless.Skip("no"), "dead-letter", {}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", FATES)
def test_the_one_that_fails_is_set_aside_and_the_others_go_through(
    isolated: Isolated, name: str
) -> None:
    error, policy, counts, aside = FATES[name]
    isolated.fails[5] = error
    assert isolated(failed=2, on_failure=policy) == after(4, **counts)
    assert isolated.group.calls == [1, 3, 5, 7]
    assert [first for first, _ in isolated.effects()] == [1, 3, 7]
    assert isolated.aside() == aside


def test_each_that_fails_is_counted(isolated: Isolated) -> None:
    isolated.fails = {1: REFUSED, 3: REFUSED}
    assert isolated() == after(2, dead=2)
    assert [first for first, *_ in isolated.aside()] == [1, 3]


@pytest.mark.parametrize("error", [REFUSED, gapless.Skip("no")])
def test_units_behind_a_key_that_is_held_are_parked(
    isolated: Isolated, error: BaseException
) -> None:
    """All five have one key."""
    isolated.world.conn.execute("update gapless.outbox_message_t set key = 'k'")
    isolated.fails[1] = error
    holds = error is REFUSED
    counts = {"waiting": 1, "parked": 1} if holds else {}
    assert isolated(on_failure="park-key") == after(2, **counts)
    assert isolated.group.calls == ([1] if holds else [1, 3])
    assert isolated.group.states() == ({1: "waiting", 3: "parked"} if holds else {})
    isolated.fails = {}
    assert isolated(3, 1, on_failure="park-key").parked == (3 if holds else 0)


def test_one_that_blocks_is_not_passed(isolated: Isolated) -> None:
    """Those before it are, and then the driver is told."""
    isolated.fails[7] = REFUSED
    assert spans(isolated(failed=2, on_failure="block")) == ([1, 3, 5], None)
    assert isolated.is_untouched()
    isolated.fails = {1: REFUSED}
    with pytest.raises(BlockedError) as caught:
        isolated(on_failure="block")
    place = f"{isolated.group.assignment.partition}@1"
    assert str(caught.value) == str(BlockedError(place, REFUSED))
    assert isolated.is_untouched()


# Units, the first that failed; the failure; the units to be tried next, or the error of the only one.
FEWER: list[tuple[int, int | None, dict[int, Fails], list[int], Any]] = [
    (5, 2, {1: REFUSED}, [1, 3], None), (5, 2, {3: REFUSED}, [1, 3], None), (5, 1, {1: REFUSED}, [1], None),
    (5, 2, {1: late}, [1, 3], None), (5, 2, {5: ends}, [1, 3], None), (5, 2, {7: ends}, [1, 3, 5], None),
    (5, None, {1: ends}, [1], None), (5, None, {3: ends}, [1], None), (1, None, {1: ends}, [1], TransactionBrokenError),
    (5, 2, {1: later}, [1, 3], None), (5, 4, {1: later}, [1, 3], None), (2, None, {1: later}, [1], None),
    (1, None, {1: later}, [1], psycopg.errors.CheckViolation),
]  # fmt: skip


@pytest.mark.few(4)
@pytest.mark.parametrize(("units", "failed", "fails", "left", "hopeless"), FEWER)
def test_a_failure_of_no_savepoint_is_tried_with_fewer(
    isolated: Isolated, units: int, failed: int | None, fails: Any, left: list[int], hopeless: Any
) -> None:
    isolated.fails = fails
    assert spans(isolated(units, failed)) == (left, hopeless)
    assert isolated.is_untouched()


def test_a_habit_just_learned_of_the_handler_is_tried_with_the_whole(isolated: Isolated) -> None:
    isolated.fails[1] = sends
    redo = isolated(failed=2)
    assert (spans(redo), redo.learned) == (([1, 3, 5, 7], None), True)
    assert isolated.is_untouched()


@pytest.mark.parametrize(("at", "failed"), [(1, 2), (5, 2), (1, None)])
def test_trouble_of_the_database_is_raised_as_it_is(
    isolated: Isolated, at: int, failed: int | None
) -> None:
    isolated.fails[at] = CONFLICT
    with pytest.raises(psycopg.errors.SerializationFailure, match="conflict"):
        isolated(failed=failed)
    assert isolated.is_untouched()


def test_a_statement_of_ours_that_fails_is_no_units_fault(isolated: Isolated) -> None:
    """Nothing is tried with fewer: the unit cannot be set aside."""
    isolated.fails[3] = REFUSED
    isolated.world.conn.execute(
        "create or replace function no_more() returns trigger language plpgsql as"
        " $$ begin raise check_violation using message = 'no more'; end $$;"
        "create trigger no_more before insert on gapless.dead_letter"
        " for each row execute function no_more()"
    )
    try:
        with pytest.raises(psycopg.errors.CheckViolation, match="no more"):
            isolated()
    finally:
        isolated.world.conn.execute("drop trigger no_more on gapless.dead_letter")
    assert isolated.is_untouched()


MOVES = """
select set_config('gapless.seeking', pg_current_xact_id()::text, true);
update gapless.consumer_offsets set next_offset = {} where group_id = '{}'
"""


@pytest.mark.parametrize("happens", ["fenced", "moved", "at its end", "filtered"])
def test_a_claim_that_is_another_one_is_left_alone(isolated: Isolated, happens: str) -> None:
    world, group = isolated.world, isolated.group
    job = isolated.job()
    redo = isolated.redo(job, 2)
    failure, dead = Failure(error=REFUSED), Verdict(state="dead")
    with psycopg.connect(world.dsn, autocommit=True) as other:
        if happens == "fenced":
            assert hold.install(other, group.successor(other)) is not None
        elif happens == "filtered":
            set_filter(other, group.name, world.topic.name, Filter(event_types=("no",)))
        else:
            other.execute(MOVES.format(3 if happens == "moved" else 11, group.name).encode())
    at = group.next_offset()
    outcome = Step(outcome="fenced" if happens == "fenced" else "idle")
    assert isolate(job, redo) == outcome
    assert give_up(job, redo.spans[:1], failure, verdict=dead) == outcome
    assert (isolated.effects(), isolated.aside(), group.next_offset()) == ([], [], at)


@pytest.mark.parametrize(
    ("policy", "attempts", "verdict", "counts", "aside"),
    [
        ("dead-letter", 1, None, {"dead": 1}, [(1, "dead", 1, "ValueError: no", None)]),
        ("retry", 1, None, {"waiting": 1}, [(1, "waiting", 1, "ValueError: no", 7)]),
        ("retry", 2, None, {"dead": 1}, [(1, "dead", 2, "ValueError: no", None)]),
        ("block", 1, "dead", {"dead": 1}, [(1, "dead", 1, "ValueError: no", None)]),
        ("dead-letter", 1, "skip", {}, []),
    ],
)
def test_one_is_given_up_without_a_call(
    isolated: Isolated, policy: Any, attempts: int, verdict: Any, counts: Any, aside: list[Any]
) -> None:
    job = isolated.job(policy)
    failure = Failure(error=REFUSED, attempts=attempts)
    said = verdict and Verdict(state=verdict)
    done = give_up(job, isolated.redo(job, 1).spans, failure, verdict=said)
    assert done == after(1, **counts)
    assert (isolated.group.calls, isolated.aside()) == ([], aside)
    assert isolated.group.next_offset() == 3


@pytest.mark.parametrize("verdict", [None, Verdict(state="block")])
def test_one_that_blocks_is_not_given_up(isolated: Isolated, verdict: Verdict | None) -> None:
    job = isolated.job("block")
    with pytest.raises(BlockedError):
        give_up(job, isolated.redo(job, 1).spans, Failure(error=REFUSED), verdict=verdict)
    assert isolated.is_untouched()
