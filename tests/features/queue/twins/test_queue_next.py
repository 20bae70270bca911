"""take_next() at the edges of blocks, segments, sessions: what is next, and what is left behind."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.twin_queues import (
    DONE,
    DUE,
    ELSEWHERE,
    HELD,
    HERE,
    MORE_SEGMENTS,
    Notes,
    block_lock,
    locks,
    note,
    noted,
    put,
)
from support.twins import Twins

TAKE = (
    "select outcome, first_offset, last_offset, base_offset, id"
    " from gapless.take_next('sender', %s, 1, %s, %s, %s, %s)"
)
RESERVE = "select * from gapless.reserve('sender', %s, 1, 4, '1 h', 'me')"
OPEN = "select receipt from gapless.reserve_open('sender', %s, 1, %s, 4, 4, 'me', '2199-01-01')"
IN_HAND = (
    "select pg_advisory_xact_lock(7427006, gapless.block_key(%s, n)) from generate_series(1, %s) n"
)
READ = "select message_id from gapless.read('orders', 1, %s, %s) order by c_offset"
SPLIT = (
    (
        "insert into gapless.log_segment select (jsonb_populate_record(s, jsonb_build_object("
        "'base_offset', 8, 'message_ids', s.message_ids[2:2], 'unit_ends', '1'))).*"
        " from gapless.log_segment s"
        " where s.topic_id = %(topic_id)s and s.partition_id = 1 and s.base_offset = 7"
    ),
    (
        "update gapless.log_segment s"
        " set last_offset = 7, message_ids = s.message_ids[1:1], unit_ends = '1'"
        " where s.topic_id = %(topic_id)s and s.partition_id = 1 and s.base_offset = 7"
    ),
)


def take(
    twins: Twins,
    hint: int | None,
    block: int = 4,
    most: int = 4,
    conn: Connection[Any] | None = None,
) -> list[tuple[Any, ...]]:
    """What take_next() says of pieces of segments, and then of events."""
    params = [twins.topic_ids["orders"], twins.leases[HERE], block, most, hint]
    return (conn or twins.conn).execute(TAKE, params).fetchall()


def cut(twins: Twins, block: int) -> None:
    """Let every queue have blocks of so many events."""
    twins.conn.execute("update gapless.queue_floor set block = %s", [block])


# The size of blocks, what is noted, the hint: what is taken. Elsewhere much more is noted.
NEXT: dict[str, tuple[int, Notes, int | None, tuple[int, int]]] = {
    "beyond all that is noted here": (2, [(1, 4, DONE), (5, 6, HELD)], 1, (7, 8)),
    "in front of what is noted of its block": (4, [(4, 4, DONE)], None, (1, 3)),
    "between what is noted of its block": (4, [(1, 1, DONE), (3, 3, DUE)], None, (2, 2)),
    "in front of it, behind a range that begins before": (
        4,
        [(1, 5, DONE), (8, 8, DUE)],
        None,
        (6, 7),
    ),
    "of a block whose end is noted, by a hint": (4, [(4, 4, DONE)], 1, (5, 8)),
    "in front of what is due": (4, [(3, 4, DUE)], None, (1, 2)),
    "of two such blocks": (2, [(2, 2, DONE), (4, 4, DONE)], None, (1, 1)),
}


@pytest.mark.parametrize("name", NEXT)
def test_which_block_is_next(twins: Twins, name: str) -> None:
    block, notes, hint, taken = NEXT[name]
    cut(twins, block)
    for place in ELSEWHERE:
        note(twins, place, [(1, 1, DONE), (5, 8, HELD), (20, 30, DUE)])
    note(twins, HERE, notes)
    assert take(twins, hint, block, block)[0][:3] == ("claimed", *taken)


@pytest.mark.parametrize(
    ("in_hand", "said"), [(64, ("claimed", 66, 66)), (65, ("held", None, None))]
)
def test_the_last_event_is_found_behind_many_blocks_in_hand(
    twins: Twins, other: Connection[Any], in_hand: int, said: tuple[Any, ...]
) -> None:
    """Others have offsets from 2 to the last but one, or to the last, in hand."""
    cut(twins, 1)
    more = MORE_SEGMENTS.format("=")
    twins.conn.execute(more, [list(range(2, 60, 2)), twins.topic_ids["orders"]])
    other.execute(IN_HAND, [twins.leases[HERE], in_hand])
    assert take(twins, 2, 1)[0][:3] == said


@pytest.mark.parametrize(("floor", "bases"), [(1, [1, 4, 7, 8]), (7, [7, 8]), (8, [8])])
def test_segments_of_one_event(twins: Twins, floor: int, bases: list[int]) -> None:
    """A block over them has each once."""
    cut(twins, 16)
    for statement in SPLIT:
        twins.conn.execute(statement, {"topic_id": twins.topic_ids["orders"]})
    put(twins, HERE, floor)
    ids = [row[0] for row in twins.conn.execute(READ, [floor, 8])]
    rows = take(twins, None, 16, 16)
    assert [row[:4] for row in rows if row[0]] == [("claimed", floor, 8, base) for base in bases]
    assert sorted(row[4] for row in rows if not row[0]) == ids
    assert noted(twins) == [(floor, 8, DONE, 0, None)]


@pytest.mark.parametrize("notes", [[(1, 4, HELD)], [(1, 4, DONE)], [(1, 2, HELD)], []])
def test_only_the_block_that_is_given_out_is_in_hand(twins: Twins, notes: Notes) -> None:
    """Who asks what became of another block's holder is not told that it is at work."""
    note(twins, HERE, notes)
    lease = twins.leases[HERE]
    assert len(twins.conn.execute(OPEN, [twins.topic_ids["orders"], lease]).fetchall()) in {2, 4}
    block = 1 if notes and notes[-1][1] == 4 else 0
    assert locks(twins) == {(7427003, lease, "ShareLock"), block_lock(twins, block)}


@pytest.mark.parametrize("function", ["take_next", "reserve"])
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_an_old_snapshot_is_refused(
    twins: Twins, second: Connection[Any], function: str, level: str
) -> None:
    """It would not show what others have committed since (Q2)."""
    with second.transaction(force_rollback=True):
        second.execute(f"set transaction isolation level {level}".encode())
        with pytest.raises(psycopg.errors.InvalidTransactionState) as caught:
            if function == "reserve":
                second.execute(RESERVE, [twins.topic_ids["orders"]])
            else:
                take(twins, None, conn=second)
    said = f"gapless.{function}() needs READ COMMITTED, not {level.upper()}: "
    said += "it decides by the present state"
    assert caught.value.diag.message_primary == said


def test_a_session_may_begin_with_a_hint(twins: Twins, module_dsn: str) -> None:
    """And what it takes is not committed before it says so, whatever was set before."""
    with connect(module_dsn, role="test") as fresh, fresh.transaction(force_rollback=True):
        assert take(twins, 1, conn=fresh)[0][:3] == ("claimed", 1, 4)
        with pytest.raises(psycopg.Error) as caught:
            fresh.execute("set constraints gapless.refuse_early_take immediate")
        assert caught.value.sqlstate == "GL001"


@pytest.fixture
def alone(shared: Twins, second: Connection[Any]) -> Iterator[tuple[int, int]]:
    """A queue that goes at the end: its topic, and the lease of partition 1."""
    second.execute("select gapless.create_group('alone', 'orders', mode => 'queue', block => 4)")
    lease = "select lease_no from gapless.lease where group_id = 'alone' and partition_id = 1"
    yield shared.topic_ids["orders"], second.execute(lease).fetchall()[0][0]
    second.execute("select gapless.drop_group('alone')")


def test_what_a_commit_leaves_in_the_session(
    second: Connection[Any], alone: tuple[int, int]
) -> None:
    """Its events cause nothing that comes later."""
    ask = "select coalesce(current_setting('gapless.chain', true), '')"
    with second.transaction():
        second.execute("select from gapless.take_next('alone', %s, 1, %s, 4, 4, null)", list(alone))
        assert second.execute(ask).fetchone() == ("open",)
        second.execute("select set_config('gapless.finished', pg_current_xact_id()::text, true)")
    assert second.execute(ask).fetchone() == ("",)
