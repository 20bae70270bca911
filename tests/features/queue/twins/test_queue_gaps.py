"""Beside another session: which gap of a queue is found, and that no lock is taken but what is needed."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.twin_queues import (
    DONE,
    HELD,
    HERE,
    PLACES,
    block_lock,
    go_on,
    lengthen,
    locks,
    note,
    put,
)
from support.twins import Twins

GAP = "select gapless.queue_gap(%s, 1, %s, 4, %s)"
BLOCK = "select pg_advisory_xact_lock(7427006, gapless.block_key(%s, %s))"


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Twins]:
    """Everywhere ann has 1 and 4 in hand, and bob 2; ann has finished 3."""
    with connect(module_dsn, role="test") as conn:
        made = Twins(conn)
        for place in PLACES:
            note(made, place, [(1, 1, HELD), (3, 3, DONE), (4, 4, HELD)], holder="ann")
            note(made, place, [(2, 2, HELD)], holder="bob")
        yield made


@pytest.fixture
def other(twins: Twins, other: Connection[Any]) -> Connection[Any]:
    """Another session, in a transaction that is never committed."""
    twins.conn.execute("set local statement_timeout = '5 s'")
    return other


# What is noted, the floor, where to begin, blocks that another has: the gap. The log has twelve events.
Gap = tuple[list[tuple[int, int]], int, int | None, set[int], int | None]
GAPS: dict[str, Gap] = {
    "the floor": ([], 6, None, set(), 6),
    "below the floor": ([], 6, 2, set(), 6),
    "within a range that begins before it": ([(2, 7)], 1, 5, set(), 8),
    "within the second of two ranges": ([(1, 2), (4, 7)], 1, 5, set(), 8),
    "within the first of ranges in a row": ([(2, 7), (8, 9), (10, 10)], 1, 5, set(), 11),
    "the last event": ([(1, 11)], 1, None, set(), 12),
    "the last event, before a range": ([(1, 11), (13, 13)], 1, None, set(), 12),
    "the end": ([], 13, None, set(), None),
    "the end, of what is asked for": ([], 1, 13, set(), None),
    "the end, before a range": ([(1, 12), (17, 18)], 1, None, set(), None),
    "the end, for the last block is in hand": ([(1, 11)], 1, None, {2}, None),
    "the same, before a range": ([(1, 11), (17, 18)], 1, None, {2}, None),
    "one block is in hand": ([(1, 3)], 1, None, {0}, 5),
    "its first event is open": ([], 1, None, {0}, 5),
    "two are": ([(1, 3)], 1, None, {0, 1}, 9),
    "one, and a range is behind": ([(1, 3), (6, 8)], 1, None, {0}, 5),
    "one, with two open, and a range is behind": ([(1, 2), (6, 8)], 1, None, {0}, 5),
    "one, with all open, and a range is behind": ([(6, 8)], 1, None, {0}, 5),
    "one that a range begins in": ([(1, 3), (8, 9)], 1, None, {1}, 4),
    "one, and the next gap is in the next": ([(2, 2), (5, 6)], 1, None, {0}, 7),
    "one, and a range from it reaches far": ([(1, 4), (6, 6), (7, 10)], 1, None, {1}, 11),
    "one, and a long range from it": ([(2, 11)], 1, None, {0}, 12),
    "another is in hand": ([(1, 4), (9, 9)], 1, None, {0, 2}, 5),
    "all are": ([], 1, None, {0, 1, 2}, None),
    "all are, with ranges": ([(2, 3), (6, 6), (10, 12)], 1, None, {0, 1, 2}, None),
    "a long one, and one more": ([(1, 9), (10, 10)], 1, None, set(), 11),
    "a gap behind a long one": ([(1, 8), (11, 12)], 1, None, set(), 9),
}


@pytest.mark.few(6)
@pytest.mark.parametrize("name", GAPS)
def test_the_first_gap_and_its_block(twins: Twins, other: Connection[Any], name: str) -> None:
    """Where one is found its block is the caller's; of a block without an event no lock is kept."""
    ranges, floor, start, held, gap = GAPS[name]
    lease = twins.leases[HERE]
    lengthen(twins)
    go_on(twins)
    twins.conn.execute("delete from gapless.queue_range where lease_no = %s", [lease])
    note(twins, HERE, [(first, last, DONE) for first, last in ranges])
    put(twins, HERE, floor)
    twins.conn.execute(
        "insert into gapless.queue_floor (lease_no, version, next_offset, block)"
        " select f.lease_no, case when f.lease_no = %s then 0 else 7 end,"
        " case when f.lease_no = %s then 1 else 9 end, 4 from gapless.queue_floor f",
        [lease, lease],
    )
    for block in held:
        other.execute(BLOCK, [lease, block])
    assert twins.value(GAP, twins.topic_ids["orders"], lease, start) == gap
    assert locks(twins) == ({block_lock(twins, (gap - 1) // 4)} if gap else set())


ROWS = "select from gapless.queue_range where {} for update nowait"


def test_a_death_keeps_nobody_from_what_others_have(twins: Twins, other: Connection[Any]) -> None:
    """Of all ranges only the one that lapses is locked."""
    lapses = f"lease_no = {twins.leases[HERE]} and first_offset = 1"
    ask = "select gapless.note_death(%s, 1, 3, 'ann')"
    assert twins.value(ask, twins.leases[HERE]) == "noted"
    free = other.execute(ROWS.format(f"not ({lapses})"))
    assert free.rowcount == 4 * len(PLACES) - 1
    with pytest.raises(psycopg.errors.LockNotAvailable), other.transaction():
        other.execute(ROWS.format(lapses))
