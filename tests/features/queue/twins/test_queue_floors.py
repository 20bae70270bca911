"""The floor of a queue: what a pause, its end and a seek write of it, and that no other is touched."""

import pytest

from support.twin_queues import DONE, DUE, ELSEWHERE, HELD, HERE, Notes, note, spread
from support.twins import Twins

ORDERS = [("sender", "orders", partition) for partition in range(3)]
FLOORS = (
    "select lease_no, version, next_offset, block, is_paused, place::text from gapless.queue_floor"
    " order by 1, 2"
)


@pytest.fixture
def apart(twins: Twins) -> Twins:
    return spread(twins)


PAUSE = "select gapless.{}('{}', {}, {})"


@pytest.mark.parametrize(
    ("group", "topic", "partition", "places"),
    [
        ("sender", "'orders'", "1", [HERE]), ("sender", "'orders'", "null", ORDERS), ("billing", "'orders'", "1", []),
        ("sender", "null", "null", [*ORDERS, *(("sender", "other", n) for n in range(3))]),
    ],
)  # fmt: skip
def test_a_pause_is_told_to_the_floor(
    twins: Twins, group: str, topic: str, partition: str, places: list[tuple[str, str, int]]
) -> None:
    """As a newer one that is the same otherwise; its end, too, once nobody's pause is left."""
    twins.conn.execute("update gapless.queue_floor set place = '(7,7)', next_offset = 2, block = 5")
    leases = sorted(twins.leases[place] for place in places)
    other = "11111111-1111-1111-1111-111111111111"
    again = "select gapless.pause('{}', {}, {}, holder => '" + other + "')"
    end = "select gapless.resume('{}', {}, {}, holder => '" + other + "')"
    steps = [(PAUSE.replace("{}", "pause", 1), True), (again, True), (end, True)]
    steps += [(PAUSE.replace("{}", "resume", 1), False)]
    for version, (step, is_paused) in enumerate(steps, 2):
        twins.conn.execute("delete from gapless.audit")
        before = twins.conn.execute(FLOORS).fetchall()
        changed = twins.changes(step.format(group, topic, partition))
        after = twins.conn.execute(FLOORS).fetchall()
        assert set(before) <= set(after)
        assert sorted(set(after) - set(before)) == [
            (lease, version, 2, 5, is_paused, "(7,7)") for lease in leases
        ]
        assert {name.split()[0] for name in changed} <= {"group_pause", "queue_floor", "audit"}


def test_what_is_stopped_rests_after_a_pause(twins: Twins) -> None:
    twins.conn.execute(
        "update gapless.consumer_offsets set stopped_at = next_offset where partition_id = 2"
    )
    twins.conn.execute(
        "select gapless.pause('sender', 'orders'), gapless.resume('sender', 'orders')"
    )
    floors = twins.conn.execute(FLOORS).fetchall()
    assert [row[4] for row in floors if row[1] == 3] == [False, False, True]


def test_a_partition_without_a_floor_is_told_no_pause(twins: Twins) -> None:
    twins.conn.execute("delete from gapless.queue_floor where lease_no = %s", [twins.leases[HERE]])
    twins.conn.execute("select gapless.pause('sender', 'orders', 1)")
    assert twins.leases[HERE] not in [row[0] for row in twins.conn.execute(FLOORS)]


MOVE = "select gapless.move_floor(%s, %s, %s, 6)"
EVERYTHING: Notes = [(1, 2, DONE), (3, 3, HELD), (4, 4, DUE)]


def test_a_floor_is_moved_and_nothing_is_noted_any_more(apart: Twins) -> None:
    for place in [*ELSEWHERE, HERE]:
        note(apart, place, EVERYTHING)
    apart.conn.execute("update gapless.queue_floor set place = '(7,7)'")
    lease = apart.leases[HERE]
    (old,) = (row for row in apart.conn.execute(FLOORS).fetchall() if row[0] == lease)
    changed = apart.changes(MOVE, ["sender", apart.topic_ids["orders"], 1])
    names = {f"queue_range {lease} {first}" for first in (1, 3, 4)}
    assert set(changed) == names | {
        f"queue_floor {lease} {old[1]}",
        f"queue_floor {lease} {old[1] + 1}",
    }
    new = [row for row in apart.conn.execute(FLOORS).fetchall() if row[0] == lease]
    assert new == [(lease, old[1] + 1, 6, 4, False, "(7,7)")]
    paused = apart.leases["sender", "orders", 0]
    apart.conn.execute("update gapless.queue_floor set is_paused = false")
    apart.conn.execute(MOVE, ["sender", apart.topic_ids["orders"], 0])
    ((is_paused,),) = apart.conn.execute(
        "select is_paused from gapless.queue_floor where lease_no = %s", [paused]
    ).fetchall()
    assert is_paused is True


def test_where_there_is_no_floor_nothing_is_moved(twins: Twins) -> None:
    note(twins, HERE, EVERYTHING)
    assert not twins.changes(MOVE, ["billing", twins.topic_ids["orders"], 1])
    assert not twins.changes(MOVE, ["sender", twins.topic_ids["orders"], 3])
    twins.conn.execute("delete from gapless.queue_floor where lease_no = %s", [twins.leases[HERE]])
    assert not twins.changes(MOVE, ["sender", twins.topic_ids["orders"], 1])
