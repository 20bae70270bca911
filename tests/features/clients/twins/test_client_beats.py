"""heartbeat() and renew_client(): until when a client is one, and what it notices of others."""

from typing import Any

import pytest

from support.staff import LATE, NOBODY, STAYS, Staff, left
from support.twins import Changes

GROUP = "consumer_group billing orders"


def beat(staff: Staff) -> tuple[tuple[Any, ...], Changes]:
    (row,), changed = staff.call(
        "select partitions, problem, topic, expires_at - clock_timestamp() between '59 min' and '1 h' as renewed"
        " from gapless.heartbeat(%s)",
        [staff.token],
    )
    return row, changed


def test_what_a_heartbeat_says(staff: Staff) -> None:
    """What it owns; what is wrong there, and where it is to be the owner. Others' errors are theirs."""
    assert beat(staff) == (([0, 1, 2], None, "orders", True), {})
    staff.hire(NOBODY)
    staff.run(
        "update gapless.consumer_group set planned_for = gapless.live_members(group_id, topic_id)"
    )
    staff.run(
        "update gapless.lease set owner = {me}, target = {me}, error = 'elsewhere' where not ({group})"
    )
    for partition, (owner, target) in enumerate(
        (("{me}", "{me}"), ("{other}", "{me}"), ("{other}", "{other}"))
    ):
        staff.run(
            f"update gapless.lease set owner = {owner}, target = {target}, error = 'no {partition}'"
            f" where {{group}} and partition_id = {partition}"
        )
    assert beat(staff) == (([0], "partition 0: no 0; partition 1: no 1", "orders", True), {})
    staff.run("update gapless.lease set owner = {other}, target = {other} where {group}")
    assert beat(staff) == (([], None, "orders", True), {})


def test_a_heartbeat_lets_go_of_what_is_not_in_hand(staff: Staff) -> None:
    staff.run("update gapless.lease set target = {other}")
    staff.run("delete from gapless.delivery where not ({here})")
    (partitions, *_), changed = beat(staff)
    assert partitions == [1]
    assert {name for name in changed if name.startswith("lease")} == {
        "lease billing orders 0", "lease billing orders 2",
    }  # fmt: skip


# How much of the hour has passed, whether somebody is gone, or there and not planned for.
RENEWALS = {
    "at once": ("0", "", False),
    "soon": ("2 min 50 s", "", False),
    "after a twentieth": ("3 min 10 s", "", True),
    "late": ("59 min", "", True),
    "somebody is gone": ("0", "gone", False),
    "somebody is new": ("0", "new", False),
}


@pytest.mark.parametrize("name", RENEWALS)
def test_a_deadline_is_renewed(staff: Staff, name: str) -> None:
    passed, who, is_renewed = RENEWALS[name]
    if who:
        staff.hire(NOBODY)
        staff.run("update gapless.lease set target = {other} where {here}")
    if who == "gone":
        staff.run(
            "update gapless.consumer_group set planned_for = gapless.live_members(group_id, topic_id)"
        )
        staff.conn.execute(LATE, [NOBODY])
    staff.conn.execute(
        f"update gapless.member set expires_at = expires_at - interval '{passed}' where ttl = '1 h'".encode()
    )
    rows, changed = staff.call(
        "select gapless.renew_client(m.member_id, 'billing', %s, m.expires_at, m.ttl) as told, m.expires_at as was"
        " from gapless.member m where m.member_id = %s",
        [staff.topic, staff.me],
    )
    idle = staff.twins.value("select current_setting('idle_in_transaction_session_timeout')")
    assert idle == ("5s" if who else "0"), "a plan is made: others wait"
    staff.conn.execute(STAYS)
    ((told, was),) = rows
    now = staff.twins.value("select expires_at from gapless.member where member_id = %s", staff.me)
    assert told == now
    assert (told > was) is is_renewed
    assert changed.pop(f"member {staff.me}", {}) == ({"beat": (0, 1)} if is_renewed else {})
    if is_renewed:
        assert staff.twins.value(
            "select %s - clock_timestamp() between '59 min 50 s' and '1 h'", now
        )
    if who == "gone":
        left(changed, f"member {NOBODY}", f"member_group billing orders {NOBODY}")
        assert changed.pop(f"eviction {NOBODY}")
    assert set(changed) == (
        {GROUP, "lease billing orders 1"} if who == "gone" else {GROUP} if who else set()
    )
