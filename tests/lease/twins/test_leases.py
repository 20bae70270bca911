"""check_leases(): one lease that is not sound is named, and no sound one beside it."""

from uuid import UUID

import pytest

from support.twins import Twins

CHECK = "select invariant, place, problem from gapless.check_leases() order by 1, 2"
TOKEN = "'00000000-0000-0000-0000-00000000000b'::uuid"
HELD = (
    f"update gapless.lease set epoch = 5, token = {TOKEN}",
    f"update gapless.consumer_offsets set epoch = 5, token = {TOKEN}",
)
FAULTS = {
    "update gapless.consumer_offsets set epoch = 6": ("S5", "the fence has epoch 6, the lease only 5"),
    "update gapless.consumer_offsets set token = gen_random_uuid()": (
        "S6", "epoch 5 is of two owners",
    ),
    "delete from gapless.consumer_offsets": ("S6", "a lease without an offset"),
    "update gapless.consumer_offsets set token = gen_random_uuid(), epoch = 4": None,
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_one_that_is_not_sound(twins: Twins, fault: str) -> None:
    for statement in HELD:
        twins.conn.execute(statement)  # type: ignore[arg-type]
    assert twins.conn.execute(CHECK).fetchall() == []
    twins.conn.execute(f"{fault} where {twins.here()}")  # type: ignore[arg-type]
    found = twins.conn.execute(CHECK).fetchall()
    expected = FAULTS[fault]
    assert found == ([(expected[0], "billing/orders/1", expected[1])] if expected else [])


def test_an_offset_without_a_lease(twins: Twins) -> None:
    """That of a partition which its topic no longer has is no fault."""
    twins.conn.execute(f"delete from gapless.lease where {twins.here()}")  # type: ignore[arg-type]
    assert twins.conn.execute(CHECK).fetchall() == [("S6", None, "a lease without an offset")]
    twins.conn.execute("update gapless.topic set partitions = 1 where name = 'orders'")
    assert twins.conn.execute(CHECK).fetchall() == []


# Of three partitions, whose they are planned to be; what is wrong with that, of members with room for twelve.
LOADS: dict[str, list[tuple[str, str, str]]] = {
    "aab": [],
    "aaa": [("P1", "billing/orders", "a has 3, b has 0")],
    "aac": [
        ("P1", "billing/orders", "a has 2, b has 0"),
        ("P1", "billing/orders/2", "planned for a member that the plan does not know"),
    ],
}


def plan(twins: Twins, members: dict[str, UUID], load: str) -> None:
    """Plan billing on orders for a and b. a has mail of it, too; all else is nobody's."""
    twins.conn.execute(
        "update gapless.lease set target = case when group_id = 'mail' and topic_id = %s then %s::uuid end",
        [twins.topic_ids["orders"], members["a"]],
    )
    for partition, name in enumerate(load):
        here = twins.here(partition=partition)
        twins.conn.execute(f"update gapless.lease set target = %s where {here}", [members[name]])  # type: ignore[arg-type]


@pytest.mark.parametrize("load", LOADS)
def test_a_plan_is_level(twins: Twins, load: str) -> None:
    members = {name: UUID(int=n) for n, name in enumerate("abc", 1)}
    for name, member_id in members.items():
        twins.conn.execute(
            "insert into gapless.member (member_id, name, ttl, expires_at, backend_pid, capacity)"
            " values (%s, %s, '1 hour', 'infinity', 0, 12)",
            [member_id, name],
        )
    topic_id = twins.topic_ids["orders"]
    for name in "ab":
        twins.conn.execute(
            "insert into gapless.member_group (member_id, group_id, topic_id) values (%s, 'billing', %s)",
            [members[name], topic_id],
        )
    twins.conn.execute(
        "update gapless.consumer_group set planned_for = gapless.live_members(group_id, topic_id)"
        " where group_id = 'billing' and topic_id = %s",
        [topic_id],
    )
    plan(twins, members, load)
    assert twins.conn.execute(CHECK).fetchall() == LOADS[load]
    twins.conn.execute(
        "update gapless.lease set target = %s where topic_id <> %s", [members["b"], topic_id]
    )
    found = twins.conn.execute(CHECK).fetchall()
    assert found == [row for row in LOADS[load] if "b has 0" not in row[2]], "b is full"
    twins.conn.execute("update gapless.member set capacity = 99")
    assert twins.conn.execute(CHECK).fetchall() == LOADS[load]
    twins.conn.execute("delete from gapless.member_group where member_id = %s", [members["b"]])
    assert twins.conn.execute(CHECK).fetchall() == [], "it is not planned for those of now"
