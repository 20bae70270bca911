"""Several supervisors share the partitions: balanced, with the fewest moves, hardly a pause."""

from collections.abc import Callable

import pytest

from support.fleet import Fleet, Load, until
from support.ledger import (
    assert_exactly_once,
    assert_make_before_break,
    entries,
    handovers,
)
from support.long import long_but


@pytest.mark.parametrize("per_worker", long_but([1, 4], 1))
def test_a_second_one_gets_its_half_while_events_flow(
    fleet: Fleet, record_property: Callable[[str, object], None], per_worker: int
) -> None:
    half = max(2, per_worker)
    settings = {"partitions_per_worker": per_worker, "total_partitions": 2 * half}
    a = fleet.start("a", **settings)
    fleet.until_owners(a=2 * half)
    with Load(fleet, partitions=2 * half) as load:
        b = fleet.start("b", **settings)
        fleet.until_owners(a=half, b=half)
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    moved = list(handovers(entries(fleet.conn)))
    assert len(moved) == half, "as few moves as there can be"
    pauses_ms = sorted(round(move.pause_s * 1000) for move in moved)
    record_property("pauses_ms", pauses_ms)
    print("pauses of a hand-over:", pauses_ms, "ms")  # noqa: T201
    assert_make_before_break(fleet.conn, moved)
    # A worker that has released what was not its own may not have ended yet.
    workers = half // per_worker
    until(lambda: len(b.children()) == workers + 1, "its candidate for the sequencer, and workers")
    assert per_worker == 1 or not a.deaths(), "its workers went on with what they kept"


@pytest.mark.long
def test_three_share_eight(fleet: Fleet) -> None:
    fleet.start("a", total_partitions=8)
    fleet.until_owners(a=8)
    fleet.start("b", total_partitions=8)
    fleet.until_owners(a=4, b=4)
    fleet.start("c", total_partitions=8)
    until(lambda: sorted(fleet.owners().values()) == [2, 3, 3], "balanced")
    for partition in range(8):
        fleet.publish(partition=partition, partitions=8)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_a_capacity_is_shared_by_all_groups_of_a_supervisor(fleet: Fleet) -> None:
    """Room that one group gives back goes to another one's unserved partitions."""
    fleet.start("small", groups=[("g", "t"), ("h", "t")], capacity=4)
    fleet.until_owners(small=4)
    for partition in range(4):
        fleet.publish(partition=partition)
    fleet.start("other", groups=[("g", "t")])
    served = "select count(*) from gapless.lease where group_id = %s and owner is not null"
    until(
        lambda: [fleet.value(served, group) for group in "gh"] == [4, 2],
        "the room is used",
        within=fleet.state,
    )
    fleet.until_owners(small=4, other=2)


@pytest.mark.long
def test_many_groups_and_topics_in_one_supervisor(fleet: Fleet) -> None:
    long = "a." + "b-" * 98 + "_c"
    assert len(long) == 200
    groups = [("g", "t"), (long, "t"), ("g", "other.topic-2"), ("G", "t")]
    fleet.start("a", groups=groups, total_partitions=2)
    fleet.until_owners(a=8)
    for topic in ("t", "other.topic-2"):
        for partition in range(2):
            fleet.publish(topic=topic, partition=partition, partitions=2)
    fleet.until_handled()
    fleet.start("b", groups=groups, total_partitions=2)
    fleet.until_owners(a=4, b=4)
    for topic in ("t", "other.topic-2"):
        for partition in range(2):
            fleet.publish({}, {}, topic=topic, partition=partition, partitions=2)
    fleet.until_handled()
    for group, topic in groups:
        assert_exactly_once(fleet.conn, group, topic)


@pytest.mark.long
@pytest.mark.slow
def test_64_partitions_and_more_descriptors_than_select_can_take(fleet: Fleet) -> None:
    """select() refuses descriptors above 1023, which a program with open files soon has."""
    fleet.start("a", total_partitions=64, odd={"open_files": 1100})
    fleet.until_owners(a=64, timeout_s=60)
    fleet.start("b", total_partitions=64)
    fleet.until_owners(a=32, b=32, timeout_s=60)
    for partition in range(64):
        fleet.publish(partition=partition, partitions=64)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
