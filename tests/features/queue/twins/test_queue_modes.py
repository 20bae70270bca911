"""What kind of group it is, its block, its pauses: which rows change, among groups that are alike."""

from typing import Any

import pytest

from support.twin_queues import DONE, ELSEWHERE, HERE, note, spread
from support.twins import SEEKS, Twins

CHECK = "select gapless.check_mode(%s, gapless.topic_id(%s), %s, %s, %s)"
ORDERS = [("sender", "orders", partition) for partition in range(3)]
FLOORS = (
    "select lease_no, version, next_offset, block, is_paused, place::text from gapless.queue_floor"
    " order by 1, 2"
)
ORDERED = 'group "mail": only a queue has a block and max_crashes'
CANNOT = 'group "{}" is {} for topic "{}", and cannot be {} for another: choose another group'


@pytest.mark.parametrize(
    ("group", "topic", "given", "said"),
    [
        ("mail", "third", ("ordered", None, None), None),
        ("sender", "third", ("queue", 1, 1), None),
        ("sender", "third", ("queue", 10000, 1000), None),
        ("sender", "third", ("queue", None, None), None),
        ("new", "third", ("queue", 5, None), None),
        ("new", "third", ("ordered", None, None), None),
        ("solo", "orders", ("queue", None, None), None),
        ("sender", "third", ("fifo", None, None), "the mode of a group is ordered or queue, not fifo"),
        ("sender", "third", (None, None, None), "the mode of a group is ordered or queue, not null"),
        ("mail", "third", ("ordered", 4, None), ORDERED),
        ("mail", "third", ("ordered", None, 4), ORDERED),
        ("mail", "third", ("ordered", 4, 4), ORDERED),
        ("sender", "third", ("queue", 0, None), 'group "sender": a block is from 1 to 10000 events, not 0'),
        ("sender", "third", ("queue", 10001, None), 'group "sender": a block is from 1 to 10000 events, not 10001'),
        ("sender", "third", ("queue", None, 0), 'group "sender": max_crashes is from 1 to 1000, not 0'),
        ("sender", "third", ("queue", 4, 1001), 'group "sender": max_crashes is from 1 to 1000, not 1001'),
        ("mail", "third", ("queue", None, None), CANNOT.format("mail", "ordered", "orders", "a queue")),
        ("mail", "orders", ("queue", None, None), CANNOT.format("mail", "ordered", "other", "a queue")),
        ("sender", "third", ("ordered", None, None), CANNOT.format("sender", "a queue", "orders", "ordered")),
        ("sender", "orders", ("ordered", None, None), CANNOT.format("sender", "a queue", "other", "ordered")),
    ],
)  # fmt: skip
def test_which_mode_a_group_can_have(
    twins: Twins, group: str, topic: str, given: tuple[str | None, int | None, int | None], said: str | None
) -> None:  # fmt: skip
    twins.conn.execute("select gapless.create_topic('third', 1)")
    twins.conn.execute("select gapless.create_group('solo', 'orders')")
    params = [group, topic, *given]
    if said is None:
        twins.conn.execute(CHECK, params)
        return
    state = "GL409" if "for another" in said else "GL400"
    assert twins.refused(CHECK, params) == (state, said)


CHANGE = (
    "select gapless.change_mode(g, %s, 6) from gapless.consumer_group g"
    " where group_id = %s and topic_id = gapless.topic_id('orders')"
)


@pytest.fixture
def apart(twins: Twins) -> Twins:
    return spread(twins)


def test_an_ordered_group_becomes_a_queue(apart: Twins) -> None:
    """Its floor is where it was in each partition, and what rests goes on resting."""
    apart.conn.execute(SEEKS)
    apart.conn.execute(
        "update gapless.consumer_offsets set next_offset = 3 + partition_id where group_id = 'billing'"
    )
    before = apart.conn.execute(FLOORS).fetchall()
    changed = apart.changes(CHANGE, ["queue", "billing"])
    leases = [apart.leases["billing", "orders", partition] for partition in range(3)]
    assert changed.pop("consumer_group billing orders") == {
        "mode": ("ordered", "queue"), "block": (None, 6),
    }  # fmt: skip
    assert set(changed) == {f"queue_floor {lease} 1" for lease in leases}
    after = apart.conn.execute(FLOORS).fetchall()
    assert sorted(set(after) - set(before)) == [
        (lease, 1, 3 + partition, 6, partition == 1, None) for partition, lease in enumerate(leases)
    ]


def test_a_queue_becomes_an_ordered_group(apart: Twins) -> None:
    """The floors of its own topic go."""
    apart.conn.execute("delete from gapless.queue_floor where version > 1")
    changed = apart.changes(CHANGE, ["ordered", "sender"])
    assert changed.pop("consumer_group sender orders") == {
        "mode": ("queue", "ordered"), "block": (4, None),
    }  # fmt: skip
    assert set(changed) <= {f"queue_floor {apart.leases[place]} 1" for place in ORDERS}
    left = {row[0] for row in apart.conn.execute(FLOORS)}
    assert not left & {apart.leases[place] for place in ORDERS}
    assert all(apart.leases[p] in left for p in ELSEWHERE if p[:2] != HERE[:2])


FIXED = (
    'group "{}" is {}, and its mode is fixed since it began: choose another group, or drop this one'
)


@pytest.mark.parametrize(
    ("group", "mode", "what"), [("sender", "ordered", "a queue"), ("billing", "queue", "ordered")]
)
def test_one_that_has_begun_stays_what_it_is(
    twins: Twins, group: str, mode: str, what: str
) -> None:
    twins.conn.execute("update gapless.lease set epoch = 1 where group_id = %s", [group])
    assert twins.refused(CHANGE, [mode, group]) == ("GL409", FIXED.format(group, what))


@pytest.mark.parametrize(
    ("group", "topic", "is_refused"),
    [("billing", "orders", True), ("mail", "orders", False), ("billing", "other", False)],
)
def test_a_group_with_a_filter_is_no_queue(
    twins: Twins, group: str, topic: str, is_refused: bool
) -> None:
    twins.conn.execute(
        "insert into gapless.group_filter (group_id, topic_id, event_types)"
        " values (%s, gapless.topic_id(%s), '{a}')",
        [group, topic],
    )
    twins.conn.execute(CHANGE, ["ordered", "billing"])
    if is_refused:
        said = 'group "billing" has a filter, and a queue takes every event: clear_filter() first'
        assert twins.refused(CHANGE, ["queue", "billing"]) == ("GL409", said)
    else:
        twins.conn.execute(CHANGE, ["queue", "billing"])


MEMBER = (
    "with m as (insert into gapless.member (member_id, name, ttl, expires_at, backend_pid)"
    " values (gen_random_uuid(), 'm', '9 s', now(), 1) returning member_id)"
    " insert into gapless.member_group (member_id, group_id, topic_id) select member_id, {} from m"
)
BEGINS = {
    "an epoch": "update gapless.lease set epoch = 1 where lease_no = {lease}",
    "a member": MEMBER.format("'{group}', {topic_id}"),
    "a letter": (
        "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset, events,"
        " transaction_id, state, attempts, reason, exception)"
        " values ('{group}', {topic_id}, 1, 1, 1, 1, gen_random_uuid(), 'dead', 1, 'no', 'no')"
    ),
    "a range": (
        "insert into gapless.queue_range (lease_no, first_offset, last_offset) values ({lease}, 1, 1)"
    ),
    "a floor that moved": (
        "insert into gapless.queue_floor (lease_no, version, next_offset, block) values ({lease}, 2, 1, 4)"
    ),
    "its first floor": (
        "insert into gapless.queue_floor (lease_no, version, next_offset, block) values ({lease}, 0, 1, 4)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BEGINS)
@pytest.mark.parametrize("place", [HERE, ("sender", "other", 1), ("auditor", "orders", 1)])
def test_whether_a_group_has_begun(twins: Twins, what: str, place: tuple[str, str, int]) -> None:
    ask = "select gapless.has_begun('sender', %s)"
    topic_id = twins.topic_ids["orders"]
    assert twins.value(ask, topic_id) is False
    words: dict[str, Any] = {"lease": twins.leases[place], "group": place[0]}
    words["topic_id"] = twins.topic_ids[place[1]]
    twins.conn.execute(BEGINS[what].format(**words))
    assert twins.value(ask, topic_id) is (place == HERE and what != "its first floor")


def test_only_partitions_without_a_floor_enter_a_queue(apart: Twins) -> None:
    gone = [HERE, ("sender", "orders", 0), ("auditor", "orders", 1), ("sender", "other", 1)]
    apart.conn.execute(
        "delete from gapless.queue_floor where lease_no = any (%s)",
        [[apart.leases[place] for place in gone]],
    )
    before = apart.conn.execute(FLOORS).fetchall()
    apart.conn.execute("select gapless.enter_queue('sender', gapless.topic_id('orders'), 7)")
    after = apart.conn.execute(FLOORS).fetchall()
    places = [*ELSEWHERE, HERE]
    assert sorted(set(after) - set(before)) == [
        (apart.leases[place], 1, (places.index(place) + 1) % 8 + 1, 7, place[2] == 0, None)
        for place in sorted(gone[:2])
    ]


SET = "select gapless.create_group('sender', 'orders', mode => 'queue', block => %s, max_crashes => %s)"
Changes = dict[str, tuple[Any, Any]]


@pytest.mark.parametrize(
    ("block", "crashes", "group", "has_floors"),
    [
        (None, None, {}, False), (4, 3, {}, False), (None, 5, {"max_crashes": (3, 5)}, False),
        (8, None, {"block": (4, 8)}, True), (2, 1, {"block": (4, 2), "max_crashes": (3, 1)}, True),
    ],
)  # fmt: skip
def test_a_queue_s_block_and_crashes(
    apart: Twins, block: int | None, crashes: int | None, group: Changes, has_floors: bool
) -> None:
    """Another block is a newer floor, at the same place, in each partition of the topic."""
    place = "update gapless.queue_floor set place = '(7,7)' where lease_no = %s"
    apart.conn.execute(place, [apart.leases[HERE]])
    before = apart.conn.execute(FLOORS).fetchall()
    changed = apart.changes(SET, [block, crashes])
    after = apart.conn.execute(FLOORS).fetchall()
    assert changed.pop("consumer_group sender orders", {}) == group
    newest = {row[0]: row for row in before}
    leases = sorted(apart.leases[each] for each in ORDERS)
    new = [(n, newest[n][1] + 1, newest[n][2], block, *newest[n][4:]) for n in leases]
    assert sorted(set(after) - set(before)) == (new if has_floors else [])
    assert set(changed) == (
        {f"queue_floor {row[0]} {row[1]}" for row in new} if has_floors else set()
    )


@pytest.mark.parametrize(
    "place", [("sender", "orders", 2), ("sender", "other", 1), ("auditor", "orders", 1)]
)
def test_a_block_stays_while_something_is_open_between(
    twins: Twins, place: tuple[str, str, int]
) -> None:
    note(twins, place, [(2, 4, DONE)])
    assert ("consumer_group sender orders" in twins.changes(SET, [8, None])) is (
        place[:2] != HERE[:2]
    )
