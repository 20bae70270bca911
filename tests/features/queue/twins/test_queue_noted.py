"""What is open again in a partition of a queue, and which of its floors counts, among floors of all kinds."""

import pytest

from support.twin_queues import DUE, ELSEWHERE, HERE, letter, note
from support.twins import Twins

NOTED = "select gapless.has_noted('sender', %s, 1, %s)"
FLOOR = (
    "insert into gapless.queue_floor (lease_no, version, next_offset, block) values (%s, %s, %s, 4)"
)


def floors(twins: Twins, place: tuple[str, str, int], *next_offsets: int, since: int = 1) -> None:
    """Let a partition have these floors, each newer than the one before."""
    lease = twins.leases[place]
    twins.conn.execute("delete from gapless.queue_floor where lease_no = %s", [lease])
    for version, next_offset in enumerate(next_offsets, since):
        twins.conn.execute(FLOOR, [lease, version, next_offset])


# The floors of the partition, of which the last is the newest, and those of all others, which are newer;
# whether a range at 3 is open again.
FLOORS: dict[str, tuple[tuple[int, ...], tuple[int, ...], bool]] = {
    "below it": ((2,), (9,), True),
    "at it": ((3,), (9,), True),
    "above it": ((4,), (1,), False),
    "below it, and it was above": ((4, 2), (9,), True),
    "above it, and it was below": ((2, 4), (1,), False),
    "others are mixed": ((2, 3), (1, 9, 1, 9), True),
}


@pytest.mark.parametrize("name", FLOORS)
def test_what_is_open_again_above_the_floor(twins: Twins, name: str) -> None:
    here, others, is_open = FLOORS[name]
    for place in ELSEWHERE:
        floors(twins, place, *others, since=5)
        note(twins, place, [(1, 8, DUE)])
        letter(twins, place, 2)
    floors(twins, HERE, *here)
    params = [twins.topic_ids["orders"], twins.leases[HERE]]
    assert twins.value(NOTED, *params) is False
    note(twins, HERE, [(3, 3, DUE)])
    assert twins.value(NOTED, *params) is is_open
