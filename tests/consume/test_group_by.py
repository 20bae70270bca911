"""groupBy user: neighbouring units of one (host_id, user_id) are handled as one, never cut (I5)."""

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection

from gapless.consume.batch import Batch
from gapless.consume.unit import Unit
from gapless.errors import HoleError
from gapless.log.event import NewEvent
from support.examples import examples
from support.world import Group, Reader, World, make_handler

Who = tuple[str | None, str | None]


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world.another_topic()


def users(*units: Iterable[Who]) -> list[NewEvent]:
    """Make one unit for each argument: an event for each (host_id, user_id)."""
    return [
        NewEvent(payload={}, transaction_id=id_, key="k", host_id=host, user_id=user)
        for unit in units
        for id_ in [uuid4()]
        for host, user in unit
    ]


A, B, OTHER_HOST = ("h", "a"), ("h", "b"), ("i", "a")


def shapes(group: Group, **limits: Any) -> list[int]:
    """The sizes of the units as the handler sees them."""
    seen: list[int] = []
    group.drain(make_handler(lambda unit, conn: seen.append(len(unit))), **limits)
    return seen


# Units by the users of their events, and the sizes of what they are merged to.
MERGES = {
    "neighbours": ([[A], [A, A], [B], [A]], [3, 1, 1]),
    "the host counts": ([[A], [OTHER_HOST], [OTHER_HOST]], [1, 2]),
    "a mixed unit is alone": ([[A], [A, B], [A, B], [B]], [1, 2, 2, 1]),
    "no user is nobody": ([[("h", None)], [("h", None)], [(None, None)]], [1, 1, 1]),
    "a user without host": ([[(None, "a")], [(None, "a")], [A]], [2, 1]),
    "partly without user": ([[A, ("h", None)], [A, A]], [2, 2]),
    "all one": ([[A]] * 30, [30]),
}


class TestMerging:
    @pytest.mark.parametrize("name", MERGES)
    def test_what_is_merged(self, world: World, group: Group, name: str) -> None:
        units, expected = MERGES[name]
        world.events(users(*units))
        assert shapes(group, group_by="user") == expected

    def test_by_transaction_nothing_is(self, world: World, group: Group) -> None:
        world.events(users([A], [A, A], [A]))
        assert shapes(group) == [1, 2, 1]

    @pytest.mark.parametrize("batch_size", [1, 2, 5, 6, 100])
    def test_a_claim_goes_on_to_the_users_last_unit(
        self, world: World, group: Group, batch_size: int
    ) -> None:
        world.events(users([B], [A], [A, A], [A, A], [A], [B], [B]))
        assert shapes(group, group_by="user", batch_size=batch_size) == [1, 6, 2]

    def test_over_many_runs_and_segments(self, world: World, group: Group) -> None:
        world.events(users([B], *[[A]] * 450))
        for _ in range(3):
            world.events(users([A, A], [A]))
        world.events(users([B]))
        assert shapes(group, group_by="user", batch_size=3) == [1, 459, 1]

    def test_a_range_too_large_for_memory_is_streamed(self, world: World, group: Group) -> None:
        world.events(users([A], [A], [A] * 20))
        assert shapes(group, group_by="user", stream_above_events=15) == [22]

    def test_alone_after_a_death(self, world: World, group: Group) -> None:
        world.events(users([A], [A], [B]))
        assert shapes(group, group_by="user", alone=True) == [2, 1]

    def test_what_is_read_ahead_is_merged_as_well(self, world: World, group: Group) -> None:
        world.events(users(*[[A], [A], [A], [B]] * 200))
        seen: list[int] = []
        reader = Reader(group)
        note = make_handler(lambda unit, conn: seen.append(len(unit)), group_by="user")
        while reader.step(10, note).outcome == "done":
            pass
        assert seen == [3, 1] * 200

    def test_not_over_a_hole(self, world: World, group: Group) -> None:
        """What stands before it is handled; then the partition stops at it."""
        for _ in range(3):
            world.events(users([A], [A]))
        world.conn.execute(
            "delete from gapless.log_segment where topic_id = %s and base_offset = 3",
            [world.topic.topic_id],
        )
        with pytest.raises(HoleError):
            shapes(group, group_by="user", batch_size=1)
        assert group.next_offset() == 3


class TestDead:
    def test_a_merged_unit_is_dead_as_a_whole(self, world: World, group: Group) -> None:
        world.events(users([B], [A], [A, A], [A], [B], [A]))
        group.failing = {2}
        assert group.drain(group_by="user") == 1
        group.assert_all_once(7)
        assert list(group.letters()) == [2, 3, 4, 5]
        assert group.calls == [1, 2, 1, 2, 6, 7]

    def test_with_a_batch_handler(self, world: World, group: Group) -> None:
        world.events(users([B], [A], [A, A], [B]))
        group.failing = {2}
        sizes: list[list[int]] = []

        def handle(batch: Batch, conn: Connection[Any]) -> None:
            sizes.append([len(unit) for unit in batch])
            for unit in batch:
                group.effect(unit, conn)
                group.refuse(unit)

        group.drain(make_handler(handle, batch=True), group_by="user")
        group.assert_all_once(5)
        assert sizes == [[1, 3, 1], [1], [3], [1]]

    @pytest.mark.long
    @settings(
        max_examples=examples(20),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(
        units=st.lists(
            st.tuples(st.lists(st.sampled_from([A, B, (None, None)]), min_size=1, max_size=3)),
            min_size=1,
            max_size=80,
        ),
        fails=st.sets(st.integers(0, 79)),
        batch_size=st.integers(1, 100),
        units_per_commit=st.sampled_from([1, 4, 64]),
        stream_above=st.sampled_from([5, 1000]),
    )
    def test_each_event_once_and_no_transaction_cut(
        self,
        shared_world: World,
        units: list[tuple[list[Who]]],
        fails: set[int],
        batch_size: int,
        units_per_commit: int,
        stream_above: int,
    ) -> None:
        world = shared_world.another_topic()
        events = users(*[unit for (unit,) in units])
        ids = [event.transaction_id for event in events]
        world.events(events)
        group = world.group()
        bad = {n for n in range(len(units)) if n in fails}

        def handle(unit: Unit, conn: Connection[Any]) -> None:
            first, last = unit.first_offset, unit.last_offset
            assert first == 1 or ids[first - 2] != ids[first - 1], "cut at the beginning"
            assert last == len(ids) or ids[last - 1] != ids[last], "cut at the end"
            group.effect(unit, conn)
            if first in bad:
                raise ValueError("refused")

        with group.conn:
            group.drain(
                make_handler(handle),
                group_by="user",
                batch_size=batch_size,
                units_per_commit=units_per_commit,
                stream_above_events=stream_above,
            )
            group.assert_all_once(len(events))


class TestBatchHandler:
    def test_is_called_once_for_a_claim(self, world: World, group: Group) -> None:
        world.units(2, 1, 3, 1)
        seen: list[list[list[int]]] = []

        def handle(batch: Batch, conn: Connection[Any]) -> None:
            seen.append([[event.offset for event in unit] for unit in batch])
            flat = [event.offset for event in batch.events]
            assert flat == [offset for unit in seen[-1] for offset in unit]
            assert [unit.first_offset for unit in batch] == [unit[0] for unit in seen[-1]]

        group.drain(make_handler(handle, batch=True), batch_size=5)
        assert seen == [[[1, 2], [3], [4, 5, 6]], [[7]]]

    @pytest.mark.few(2)
    @pytest.mark.parametrize("failing", [{1}, {30}, {5, 6}, set(range(1, 31)), set()], ids=str)
    def test_failing_units_are_found_one_by_one(
        self, world: World, group: Group, failing: set[int]
    ) -> None:
        world.units(*[1] * 30)
        group.failing = failing
        assert group.drain(group.batch_handler) == 1
        group.assert_all_once(30)
        assert set(group.letters()) == failing
        assert len(group.calls) == (1 + 30 if failing else 1)

    @pytest.mark.long
    def test_in_a_large_batch_by_halves(self, world: World, group: Group) -> None:
        world.units(*[1] * 1000)
        group.failing = {700}
        group.drain(group.batch_handler, batch_size=1000)
        group.assert_all_once(1000)
        assert list(group.letters()) == [700]
        assert len(group.calls) < 100, "each a batch; units one by one would be 1000"

    @pytest.mark.long
    def test_a_batch_with_a_large_unit_is_streamed(self, world: World, group: Group) -> None:
        world.units(1, 5000, 1)
        group.drain(group.batch_handler, stream_above_events=100)
        group.assert_all_once(5002)
