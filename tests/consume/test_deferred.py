"""Deferred constraints: what fails only at COMMIT finds its unit, without an endless loop (I9)."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection

from gapless.consume.batch import Batch
from gapless.consume.unit import Unit
from support.world import Group, World, make_handler

TABLES = """
drop table if exists child, parent, budget, late;
create table parent (id int primary key);
create table child (
  id int primary key,
  parent_id int references parent deferrable initially deferred,
  rank int unique deferrable initially deferred
);
create table budget (amount int not null);
create or replace function not_over_budget() returns trigger language plpgsql as $$
begin
  if (select sum(amount) from budget) > 100 then
    raise exception 'over budget' using errcode = 'check_violation';
  end if;
  return null;
end $$;
create constraint trigger not_over_budget after insert on budget
  deferrable initially deferred for each row execute function not_over_budget();
"""


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


@pytest.fixture
def tables(world: World) -> None:
    world.conn.execute(TABLES)


def orphan(conn: Connection[Any], n: int) -> None:
    conn.execute("insert into child values (%s, %s, %s)", [n, -n, n])


def same_rank(conn: Connection[Any], n: int) -> None:
    conn.execute("insert into child values (%s, null, 0), (%s, null, 0)", [n, -n])


def too_much(conn: Connection[Any], n: int) -> None:
    conn.execute("insert into budget values (101)")


@pytest.fixture(params=[orphan, same_rank, too_much])
def breaks(request: pytest.FixtureRequest) -> Callable[[Connection[Any], int], None]:
    """What breaks a deferred constraint, of each kind there is."""
    found: Callable[[Connection[Any], int], None] = request.param
    return found


def family(conn: Connection[Any], n: int) -> None:
    """Child before parent: fine as long as the constraint stays deferred."""
    conn.execute("insert into child values (%s, %s, %s)", [n, n, n])
    conn.execute("insert into parent values (%s)", [n])


SQLSTATES = {orphan: "23503", same_rank: "23505", too_much: "23514"}


@pytest.mark.usefixtures("tables")
class TestOneUnit:
    @pytest.mark.few(3)
    @pytest.mark.parametrize("failing", [{1}, {10}, {5}, {3, 4, 9}, set(range(1, 11))], ids=str)
    def test_is_dead_and_the_others_stay(
        self,
        world: World,
        group: Group,
        breaks: Callable[[Connection[Any], int], None],
        failing: set[int],
    ) -> None:
        world.units(*[1] * 10)

        def insert(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            family(conn, unit.first_offset + 1000)
            if unit.first_offset in failing:
                breaks(conn, unit.first_offset)

        assert group.drain(make_handler(insert), units_per_commit=10) == 1
        group.assert_all_once(10)
        assert set(group.letters()) == failing
        assert group.letters_have("sqlstate") == {SQLSTATES[breaks]}
        assert world.value("select count(*) from parent") == 10 - len(failing)
        assert len(group.calls) == 20, "once for each unit, all seems well until COMMIT; then again"

    def test_in_a_long_batch_is_found_by_halves(self, world: World, group: Group) -> None:
        """Nothing tells which of 1000 units made COMMIT fail; not all are handled one by one."""
        world.units(*[1] * 1000)

        def insert(unit: Unit, conn: Connection[Any]) -> None:
            group.calls.append(unit.first_offset)
            if unit.first_offset == 700:
                orphan(conn, 700)

        group.drain(make_handler(insert), batch_size=1000)
        assert list(group.letters()) == [700]
        assert group.next_offset() == 1001
        assert len(group.calls) < 5000

    def test_alone_in_its_batch(
        self, world: World, group: Group, breaks: Callable[[Connection[Any], int], None]
    ) -> None:
        world.units(1, 1)
        what = make_handler(lambda unit, conn: breaks(conn, unit.first_offset))
        assert group.drain(what, batch_size=1) == 2
        assert list(group.letters()) == [1, 2]
        assert "def " not in group.letters()[1]

    def test_together_with_a_plain_failure(self, world: World, group: Group) -> None:
        """The units before a failure ran well, but what they deferred was never checked."""
        world.units(*[1] * 20)
        group.failing = {15}

        def insert(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            if unit.first_offset == 7:
                orphan(conn, 7)

        group.drain(make_handler(insert))
        group.assert_all_once(20)
        assert list(group.letters()) == [7, 15]
        # 15 until the failure; 14 that break the check; those one by one; and so on behind them.
        assert len(group.calls) == 15 + 14 + 14 + 1 + 6

    def test_in_a_batch_handler(self, world: World, group: Group) -> None:
        world.units(*[1] * 20)

        def insert(batch: Batch, conn: Connection[Any]) -> None:
            for unit in batch:
                group.effect(unit, conn)
                if unit.first_offset == 7:
                    orphan(conn, 7)

        group.drain(make_handler(insert, batch=True))
        group.assert_all_once(20)
        assert list(group.letters()) == [7]

    @pytest.mark.long
    def test_when_only_commit_itself_can_tell(self, world: World, group: Group) -> None:
        """A trigger that lets the check pass and fails at COMMIT all the same."""
        world.conn.execute(
            "create or replace function moody() returns trigger language plpgsql as $$ begin"
            "  if new.amount < 0 and upper(current_query()) = 'COMMIT' then"
            "    raise exception 'only now' using errcode = 'check_violation'; end if;"
            "  return null; end $$;"
            "create constraint trigger moody after insert on budget"
            "  deferrable initially deferred for each row execute function moody()"
        )
        world.units(*[1] * 12)

        def insert(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            amount = -1 if unit.first_offset in {5, 12} else 0
            conn.execute("insert into budget values (%s)", [amount])

        group.drain(make_handler(insert))
        group.assert_all_once(12)
        assert list(group.letters()) == [5, 12]
        assert "only now" in group.letters()[5]


@pytest.mark.usefixtures("tables")
class TestSeveralUnits:
    def test_a_combination_of_two_breaks_it(self, world: World, group: Group) -> None:
        """Each alone would pass: the first stays, the second is too much."""
        world.units(1, 1, 1)
        amounts = {1: 60, 2: 60, 3: 40}

        def spend(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            conn.execute("insert into budget values (%s)", [amounts[unit.first_offset]])

        group.drain(make_handler(spend))
        group.assert_all_once(3)
        assert list(group.letters()) == [2]
        assert world.value("select sum(amount) from budget") == 100

    def test_the_next_unit_finds_its_constraints_deferred(self, world: World, group: Group) -> None:
        """After a failure or a success under a savepoint: child before parent still works."""
        world.units(*[1] * 6)
        group.failing = {1}

        def insert(unit: Unit, conn: Connection[Any]) -> None:
            if unit.first_offset == 3:
                orphan(conn, 3)
            family(conn, unit.first_offset)
            group.record(unit, conn)

        group.drain(make_handler(insert))
        group.assert_all_once(6)
        assert list(group.letters()) == [1, 3]
        assert world.rows("select id from parent order by id") == [(2,), (4,), (5,), (6,)]

    def test_a_handler_may_check_its_own_constraints(self, world: World, group: Group) -> None:
        world.units(1, 1)

        def insert(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            family(conn, unit.first_offset)
            conn.execute("set constraints child_parent_id_fkey immediate")
            conn.execute("set constraints child_parent_id_fkey deferred")

        group.drain(make_handler(insert))
        assert group.letters() == {}

    def test_but_not_all_there_are(self, world: World, group: Group) -> None:
        """Ours is among them: it refuses an early COMMIT, and cannot tell one from the other."""
        world.units(1)
        group.drain(make_handler(lambda unit, conn: conn.execute("set constraints all immediate")))
        assert "SET CONSTRAINTS ALL IMMEDIATE counts as COMMIT" in group.letters()[1]

    def test_constraints_made_deferred_by_the_handler(self, world: World, group: Group) -> None:
        world.conn.execute(
            "create table late (n int, constraint late_n unique (n) deferrable initially immediate)"
        )
        world.units(1, 1)

        def insert(unit: Unit, conn: Connection[Any]) -> None:
            group.record(unit, conn)
            conn.execute("set constraints all deferred")
            conn.execute("insert into late values (%s), (%s)", [unit.first_offset, 1])

        group.drain(make_handler(insert))
        group.assert_all_once(2)
        assert list(group.letters()) == [1]
