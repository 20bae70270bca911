"""check_leases(): one lease that is not sound is named, and no sound one beside it."""

from __future__ import annotations

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
