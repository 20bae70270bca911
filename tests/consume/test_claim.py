"""Claiming: an idle look writes nothing, no unit is cut (I5), a hole stops the partition (I3)."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, chain
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import IsolationLevel

from gapless.consume.unit import Unit
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.errors import HoleError
from gapless.features.server.server import throwaway_cluster
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence
from support.world import TOPIC, Group, World, make_handler, same_id


def firsts(group: Group) -> list[int]:
    """The first offsets of the units as the handler saw them."""
    return [
        row[0]
        for row in group.world.rows(
            "select unit_first from effect where group_id = %s group by 1 order by 1", group.name
        )
    ]


@contextmanager
def alone_on_a_server() -> Iterator[tuple[World, Group]]:
    """A world on a server of its own: on a shared one, others write all the time."""
    with (
        throwaway_cluster({"autovacuum": "off"}) as cluster,
        connect(cluster.dsn(), role="test") as conn,
    ):
        migrate(conn)
        create_chunks(conn)
        world = World.make(cluster.dsn(), conn)
        group = world.group()
        try:
            yield world, group
        finally:
            group.conn.close()


class TestIdle:
    COUNTERS = "select pg_snapshot_xmax(pg_current_snapshot())::text, pg_current_wal_insert_lsn()"

    @pytest.mark.long
    def test_writes_nothing(self) -> None:
        with alone_on_a_server() as (world, group):
            world.units(3, 3)
            group.drain()
            world.conn.execute("checkpoint")
            for _ in range(10):  # the server itself may write something now and then
                before = world.rows(self.COUNTERS)
                for _ in range(25):
                    assert group.step().outcome == "idle"
                    assert group.step_alone().outcome == "idle"
                if world.rows(self.COUNTERS) == before:
                    return
            pytest.fail("idle steps write xids or WAL, each time")

    def test_an_empty_log_is_idle(self, group: Group) -> None:
        assert group.step().outcome == "idle"
        assert group.step_alone().outcome == "idle"
        assert group.next_offset() == 1

    def test_the_session_is_idle_and_in_autocommit_afterwards(
        self, world: World, group: Group
    ) -> None:
        world.units(1)
        for _ in range(2):
            group.step()
            assert group.conn.autocommit
            assert group.conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.invariant("I5")
class TestUnitsAreNeverCut:
    SIZES = (3, 1, 5, 2, 9, 1, 1, 30, 4)

    @pytest.mark.few(2)
    @pytest.mark.parametrize("batch_size", [1, 2, 7, 1000])
    def test_whatever_the_batch_size(self, world: World, group: Group, batch_size: int) -> None:
        world.units(*self.SIZES)
        steps = group.drain(batch_size=batch_size)
        group.assert_all_once(sum(self.SIZES))
        assert firsts(group) == [1, *(1 + end for end in accumulate(self.SIZES))][:-1]
        assert steps == {1: 9, 2: 7, 7: 4, 1000: 1}[batch_size]

    def test_a_step_takes_no_more_than_the_unit_in_which_the_batch_ends(
        self, world: World, group: Group
    ) -> None:
        world.units(*[1] * 100)
        assert group.step(batch_size=7).events == 7
        world.units(50, 1)
        assert group.step(batch_size=94).events == 143

    @pytest.mark.few(3)
    @pytest.mark.parametrize("batch_size", [1, 150, 200, 201, 1000])
    def test_units_across_segments(self, world: World, group: Group, batch_size: int) -> None:
        sizes = (199, 1, 1, 200, 205, 400, 1000, 1, 650, 2)
        world.units(*sizes)
        # 200 events a segment: most units are in several.
        assert world.value("select count(*) from gapless.log_segment") == 14
        seen: list[list[int]] = []
        group.drain(
            make_handler(lambda unit, conn: seen.append([event.offset for event in unit])),
            batch_size=batch_size,
        )
        assert [len(offsets) for offsets in seen] == list(sizes)
        assert [*chain(*seen)] == list(range(1, sum(sizes) + 1))

    def test_a_unit_published_in_several_transactions_ends_with_its_run(
        self, world: World, group: Group
    ) -> None:
        """An explicit transaction_id is one unit only as far as one sequencer run saw it."""
        shared = uuid4()
        world.events(same_id((shared, 3)))
        world.events(same_id((shared, 2)))
        group.drain()
        assert firsts(group) == [1, 4]

    def test_runs_of_an_id_are_units_of_their_own(self, world: World, group: Group) -> None:
        """The same transaction_id again, after others: a new unit, never gathered across them."""
        a, b = uuid4(), uuid4()
        world.events(same_id((a, 2), (b, 3), (a, 1), (None, 2), (a, 2), (b, 1)))
        seen: list[tuple[int, int, UUID]] = []
        group.drain(
            make_handler(
                lambda unit, conn: seen.append((unit.first_offset, len(unit), unit.transaction_id))
            )
        )
        own = seen[3][2]
        assert seen == [(1, 2, a), (3, 3, b), (6, 1, a), (7, 2, own), (9, 2, a), (11, 1, b)]

    def test_plain_transactions_are_units(self, world: World, group: Group) -> None:
        for size in (2, 1, 3):
            with world.conn.transaction():
                for n in range(size):
                    publish(world.conn, TOPIC, {"n": n}, key="k")
        sequence(world.conn)
        group.drain()
        assert firsts(group) == [1, 3, 4]


@pytest.mark.invariant("I3")
class TestHole:
    def test_a_missing_event(self, world: World, group: Group) -> None:
        world.units(2, 2, 2)
        world.conn.execute("delete from gapless.outbox_message_t where id = 4")
        assert group.step().next_offset == 3, "what stands before the hole is handled"
        with pytest.raises(HoleError, match=r"1 of 4 events are missing.*id 4: restore them"):
            group.step()
        assert (group.next_offset(), group.letters(), group.effects()) == (3, {}, [1, 2])
        with pytest.raises(HoleError, match="1 of 2 events are missing"):
            group.step(batch_size=2)

    def test_a_missing_event_of_a_streamed_unit(self, world: World, group: Group) -> None:
        """Even if the handler does not look, or swallows whatever it meets."""
        world.units(50, 1)
        world.conn.execute("delete from gapless.outbox_message_t where id = 40")
        for function in (lambda unit, conn: None, group.record):
            with pytest.raises(HoleError, match=r"1 of 50 events are missing"):
                group.step(make_handler(function), stream_above_events=10)
        assert (group.next_offset(), group.letters()) == (1, {})

    def test_an_event_that_vanishes_while_it_is_streamed(self, world: World, group: Group) -> None:
        """Met inside the handler, it is no failure of the handler."""
        world.units(2500)

        def handle(unit: Unit, conn: psycopg.Connection) -> None:
            world.conn.execute("delete from gapless.outbox_message_t where id = 2000")
            group.record(unit, conn)

        with pytest.raises(HoleError, match="1 of 1000 events are missing"):
            group.step(make_handler(handle), stream_above_events=10)
        assert (group.next_offset(), group.letters()) == (1, {})

    def test_a_missing_event_met_while_looking_for_a_failing_unit(
        self, world: World, group: Group
    ) -> None:
        world.units(*[1] * 2000)
        group.failing = {3}
        world.conn.execute("delete from gapless.outbox_message_t where id = 60")
        while group.step(batch_size=2000).next_offset < 60:
            pass
        with pytest.raises(HoleError):
            group.step(batch_size=2000)
        assert list(group.letters()) == [3]
        assert group.effects() == [n for n in range(1, 60) if n != 3]

    @pytest.mark.parametrize("base", [1, 201, 401])
    def test_a_missing_segment(self, world: World, group: Group, base: int) -> None:
        world.units(*[1] * 1000)
        if base > 1:
            group.drain_to(base)
        world.conn.execute("delete from gapless.log_segment where base_offset = %s", [base])
        text = f"offsets {base} to {base + 199} are missing from log_segment: restore them"
        with pytest.raises(HoleError, match=text):
            group.step(batch_size=7)
        with pytest.raises(HoleError, match=text):
            group.step_alone()
        assert group.next_offset() == base

    @pytest.mark.parametrize("batch_size", [350, 1000])
    def test_a_missing_segment_ahead(self, world: World, group: Group, batch_size: int) -> None:
        world.units(*[1] * 1000)
        world.conn.execute("delete from gapless.log_segment where base_offset = 201")
        assert group.step(batch_size=batch_size).next_offset == 201, "up to the hole it goes on"
        with pytest.raises(HoleError, match="offsets 201 to 400 are missing"):
            group.step(batch_size=batch_size)
        assert group.effects() == list(range(1, 201))

    @pytest.mark.parametrize("has_end", [True, False])
    def test_the_unit_that_it_tears_is_kept_whole(
        self, world: World, group: Group, has_end: bool
    ) -> None:
        """Its beginning is there, in a segment of its own, and is not handled without the rest."""
        world.units(150, 100, 1)
        if has_end:
            world.units(1)
        world.conn.execute("delete from gapless.log_segment where base_offset = 201")
        assert group.step(batch_size=251).next_offset == 151
        with pytest.raises(HoleError, match="offsets 201 to" if has_end else "200 ends no unit"):
            group.step()
        assert group.effects() == list(range(1, 151))

    def test_it_goes_on_when_mended(self, world: World, group: Group) -> None:
        world.units(2, 2)
        world.conn.execute(
            "create table away as select * from gapless.outbox_message_t where id = 3"
        )
        world.conn.execute("delete from gapless.outbox_message_t where id = 3")
        assert group.step().next_offset == 3
        with pytest.raises(HoleError):
            group.step()
        world.conn.execute("insert into gapless.outbox_message_t select * from away")
        group.drain()
        group.assert_all_once(4)

    def test_other_partitions_go_on(self, dsn: str, conn: psycopg.Connection) -> None:
        world = World.make(dsn, conn, partitions=2)
        world.events(NewEvent(payload={}, key=f"k{n}") for n in range(40))
        lost = world.value("select message_ids[1] from gapless.log_segment where partition_id = 0")
        conn.execute("delete from gapless.outbox_message_t where id = %s", [lost])
        broken, whole = world.group(0), world.group(1)
        with broken.conn, whole.conn:
            with pytest.raises(HoleError):
                broken.step()
            assert whole.step().outcome == "done"


class TestIsolation:
    def test_a_roles_default_is_overridden(self, world: World, dsn: str) -> None:
        """guard_session for what runs in autocommit, the step for its own transactions."""
        name = world.conn.info.dbname
        world.conn.execute(
            psycopg.sql.SQL("alter database {} set default_transaction_isolation = 'serializable'")
            .format(psycopg.sql.Identifier(name))
        )  # fmt: skip
        world.units(1, 1)
        group = world.group()
        seen: list[str] = []

        def look(unit: object, conn: psycopg.Connection) -> None:
            (level,) = conn.execute("show transaction_isolation").fetchone() or ("",)
            seen.append(level)
            conn.execute("reset all")  # puts the default of the database back

        with group.conn:
            assert group.conn.execute("show transaction_isolation").fetchone() == (
                "read committed",
            )
            group.drain(make_handler(look), batch_size=1)
        assert set(seen) == {"read committed"}

    def test_a_drivers_choice_is_overridden(self, world: World, group: Group) -> None:
        world.units(1)
        group.conn.isolation_level = IsolationLevel.SERIALIZABLE
        levels: list[object] = []
        group.step(
            make_handler(
                lambda unit, conn: levels.append(
                    conn.execute("show transaction_isolation").fetchone()
                )
            )
        )
        assert levels == [("read committed",)]
