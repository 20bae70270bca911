"""What was set aside before a barrier, and what is called at least once: beside a change."""

from typing import Any

from gapless.consume.unit import Unit
from gapless.consume.user.handler import handler
from gapless.consume.verdict.policy import Policy
from partitions.players import Players, begun, heard, listener

PARK: dict[str, Any] = {"policy": Policy(on_failure="park-key", retry_delays_s=())}
RETRY: dict[str, Any] = {"policy": Policy(on_failure="retry", retry_delays_s=(3600,))}


def redrive(players: Players, partition_id: int) -> None:
    asked = players.value("select gapless.redrive_letter('g', 't', %s, 1, 'ann')", partition_id)
    assert asked == "asked"


def test_a_key_stays_parked_in_its_new_partition(players: Players) -> None:
    """Behind the unit that failed in the old one: dead, until somebody does something about it."""
    moved = players.key(5, 8)
    keys = [f"x{n}" for n in range(100)]
    other = next(key for key in keys if players.place(key, 8) == 5)
    group = players.group()
    (first,) = players.publish(moved)
    group.failing = {first}
    players.change(8)
    (second,), (third,) = players.publish(moved), players.publish(other)
    players.change(3)
    (fourth,) = players.publish(moved)
    for _ in range(3):
        group.drive(**PARK)
    assert group.handled() == [third], "other keys go on"
    assert [state for _, state in group.states()].count("parked") == 2
    behind = "select count(distinct parked_partition) from gapless.parked_after('g', %s, 1, 1)"
    topic_id = players.value("select gapless.topic_id('t')")
    assert players.value(behind, topic_id) == 2, "whatever partition they are in"
    group.failing = set()
    redrive(players, 1)
    for _ in range(4):
        group.drive(**PARK)
    assert group.handled() == [third, first, second, fourth]
    assert players.value("select count(*) from gapless.dead_letter_key") == 0
    group.assert_in_order()
    assert list(group.leases()) == [0, 1, 2]


def test_the_worker_of_the_new_partition_is_told(dsn: str, players: Players) -> None:
    moved = players.key(5, 8)
    group = players.group()
    (first,) = players.publish(moved)
    group.failing = {first}
    players.change(8)
    players.publish(moved)
    group.drive(**PARK)
    group.drive(**PARK)
    assert group.states() == [(1, "dead"), (5, "parked")]
    with listener(players, dsn, 8) as ear:
        group.failing = set()
        redrive(players, 1)
        group.drive(1, **PARK)
        assert heard(players, ear) == {1, 5}
    assert group.states() == [(1, "redriven"), (5, "waiting")]


def test_a_partition_is_not_retired_before_what_it_set_aside(players: Players) -> None:
    group = players.group()
    (tag,) = players.publish(players.key(3, 4))
    group.failing = {tag}
    players.change(2)
    group.drive(**RETRY)
    assert group.states() == [(3, "waiting")]
    assert list(group.leases()) == [0, 1, 3], "somebody has to try again"
    group.failing = set()
    redrive(players, 3)
    group.drive(3, **RETRY)
    group.assert_all()
    assert list(group.leases()) == [0, 1]


def test_a_dead_letter_of_a_retired_partition_is_handled_again(players: Players) -> None:
    group = players.group()
    (tag,) = players.publish(players.key(3, 4))
    group.failing = {tag}
    players.change(2)
    group.drive()
    assert group.states() == [(3, "dead")]
    assert list(group.leases()) == [0, 1]
    group.failing = set()
    redrive(players, 3)
    assert list(group.leases()) == [0, 1, 3]
    group.drive(3)
    assert group.handled() == [tag]
    assert list(group.leases()) == [0, 1]


def test_calls_outside_a_transaction_keep_the_order(dsn: str, players: Players) -> None:
    """Their driver rolls its claim back: what it noted is noted again with what was done."""
    group = begun(players, 8)
    called: list[str] = []

    @handler(topic="t", delivery="at-least-once")
    def outside(unit: Unit) -> None:
        called.extend(str(event.event_type) for event in unit)

    with listener(players, dsn, 8) as ear:
        group.drive(5, what=outside)
        assert called == []
        group.drive(1, what=outside)
        assert 5 in heard(players, ear)
        group.drive(5, what=outside)
    assert called == ["e1", "e5", "e9"]
    group.drive(what=outside)
    assert sorted(called) == sorted(players.published)
    admitted = "select distinct layout, passed from gapless.consumer_offsets"
    assert players.rows(admitted) == [(1, 1)]
