"""move_offset(), and what goes with it: floors of queues, subscriptions that are stopped, letters."""

from typing import Any

import pytest

from consume.twins.seeking import placed
from support.twins import Twins

__all__ = ["placed"]

STOP = (
    "insert into gapless.subscription_stop (subscription_id, partition_id, from_offset, reason)"
    " select s.subscription_id, p, 3 + p, 'no' from gapless.subscription s, generate_series(0, 2) p"
)


@pytest.mark.parametrize(("to", "moves"), [(3, True), (4, False), (5, False)])
def test_what_a_subscription_waits_for_it_waits_for_again(
    twins: Twins, to: int, *, moves: bool
) -> None:
    """Where it is moved behind; in that partition of that group alone."""
    for group, topic in (("billing", "orders"), ("billing", "other"), ("mail", "orders")):
        call = "select gapless.subscribe(%s, %s, 's', condition => '1 == 1')"
        twins.conn.execute(call, [group, topic])
    twins.conn.execute(STOP)
    twins.seek(7)
    changed = twins.changes(f"select gapless.move_offset('billing', 'orders', 1, 7, {to})")
    stops = {name: row for name, row in changed.items() if name.startswith("subscription_stop ")}
    here = twins.value(
        "select subscription_id from gapless.subscription where group_id = 'billing' and topic_id = %s",
        twins.topic_ids["orders"],
    )
    assert stops == ({f"subscription_stop {here} 1": {"from_offset": (4, 3)}} if moves else {})


def test_a_seek_of_a_queue_moves_its_floor(twins: Twins) -> None:
    twins.seek(7)
    changed = twins.changes("select gapless.move_offset('sender', 'orders', 1, 7, 3)")
    assert any(
        name.startswith(f"queue_floor {twins.leases['sender', 'orders', 1]} ") for name in changed
    )


RANGE = "insert into gapless.queue_range (lease_no, first_offset, last_offset) values (%s, 7, 8)"


@pytest.mark.parametrize(("partition", "moves"), [(1, True), (2, False)])
def test_a_queue_that_stays_begins_anew(twins: Twins, partition: int, *, moves: bool) -> None:
    """What is finished there ahead of its floor is open again."""
    twins.conn.execute(RANGE, [twins.leases["sender", "orders", partition]])
    changed = twins.changes("select gapless.move_offset('sender', 'orders', 1, 1, 1)")
    assert bool(changed) is moves
    assert any(name.startswith("queue_range ") for name in changed) is moves


@pytest.mark.parametrize("change", ["stopped_at = 9", "latest_upto = 9"])
def test_who_stays_is_not_moved_for_another_that_is_stopped(twins: Twins, change: str) -> None:
    twins.conn.execute(f"update gapless.consumer_offsets set {change} where not ({twins.here()})")
    assert twins.changes("select gapless.move_offset('billing', 'orders', 1, 1, 1)") == {}


def test_nobody_parks_units_of_the_group_meanwhile(twins: Twins) -> None:
    twins.conn.execute("select gapless.move_offset('billing', 'orders', 1, 1, 3)")
    mine = (
        "select g.group_id, g.topic_id from gapless.guard_keys k"
        " join gapless.consumer_group g using (group_no) where k.xmax = pg_current_xact_id()::xid"
    )
    assert twins.conn.execute(mine).fetchall() == [("billing", twins.topic_ids["orders"])]


def test_a_seek_is_no_end_of_a_batch(placed: Twins) -> None:
    placed.conn.execute("select gapless.move_offset('billing', 'orders', 1, 7, 8)")
    placed.conn.execute("set constraints all immediate")


STATES = (
    "update gapless.dead_letter set state = 'discarded', discarded_by = 'me', discard_reason = 'old'"
    " where first_offset = 3"
)


@pytest.mark.parametrize(
    ("first", "told", "events"),
    [
        (1, {"dead": 1, "discarded": 1, "discards": [{"offset": 3, "by": "me", "reason": "old"}]}, 4),
        (3, {"dead": 1, "discarded": 1, "discards": [{"offset": 3, "by": "me", "reason": "old"}]}, 4),
        (4, {"dead": 1}, 3), (5, {}, 2), (6, {}, 1), (7, {}, 0),
    ],
)  # fmt: skip
def test_what_is_told_of_letters_that_go(
    placed: Twins, first: int, told: dict[str, Any], events: int
) -> None:
    placed.conn.execute(STATES)
    place = [placed.topic_ids["orders"], first]
    assert placed.value("select gapless.sum_letters('billing', %s, 1, %s)", *place) == told
    found = placed.value("select gapless.letters_from('billing', %s, 1, %s)", *place)
    assert found == events


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        ("2020-01-02 03:04:05.6789+02", "2020-01-02T01:04:05.678Z"), ("infinity", "infinity"),
        ("-infinity", "-infinity"),
    ],
)  # fmt: skip
def test_a_time_for_people(twins: Twins, moment: str, text: str) -> None:
    assert twins.value("select gapless.stamp(%s)", moment) == text
