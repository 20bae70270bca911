"""What another session has in hand at this moment: it is passed, or waited for by asking again, never taken."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.twin_queues import DONE, DUE, HELD, HERE, PLACES, letter, letters, note, noted, put
from support.twins import Twins

GROUP, TOPIC, PARTITION = HERE
TOKEN = "11111111-1111-4111-8111-111111111111"
ROW = "select from gapless.{} where {} for update"
TAKE = "select outcome, first_offset, last_offset from gapless.take_next('sender', %s, 1, %s, 4, 4, %s)"


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Twins]:
    """Everywhere ann has 1 in hand, 2 and 3 are due, and units at 7 and 8; that others see, too."""
    with connect(module_dsn, role="test") as conn:
        made = Twins(conn)
        for place in PLACES:
            note(made, place, [(1, 1, HELD)], holder="ann")
            note(made, place, [(2, 2, DUE), (3, 3, DUE)], holder="bob")
            letter(made, place, 7, worker="ann", token=TOKEN)
            letter(made, place, 8, worker="ann")
        yield made


def has(other: Connection[Any], twins: Twins, table: str, first: int) -> None:
    where = f"lease_no = {twins.leases[HERE]}" if table == "queue_range" else twins.here(GROUP)
    other.execute(ROW.format(table, f"{where} and first_offset = {first}"))


def lock(
    other: Connection[Any], twins: Twins, block: int | None = None, place: Any = HERE, mode: str = ""
) -> None:  # fmt: skip
    """The lock of a block, or of a partition."""
    lease = twins.leases[place]
    if block is None:
        other.execute(f"select pg_advisory_xact_lock{mode}(7427003, %s)", [lease])
    else:
        other.execute(
            "select pg_advisory_xact_lock(7427006, gapless.block_key(%s, %s))", [lease, block]
        )


def take(twins: Twins, hint: int | None) -> tuple[Any, ...]:
    params = [twins.topic_ids[TOPIC], twins.leases[HERE], hint]
    return tuple(twins.conn.execute(TAKE, params).fetchall()[0])


# Blocks in another's hands, the hint, what is noted more, the floor: what is taken. 1 to 3 are noted.
BLOCKS: dict[str, tuple[set[int], int | None, list[tuple[int, int, str]], int, tuple[Any, ...]]] = {
    "none": (set(), None, [], 1, ("claimed", 4, 4)),
    "the first": ({0}, None, [], 1, ("claimed", 5, 8)),
    "the first, by a hint": ({0}, 1, [], 1, ("claimed", 5, 8)),
    "the second": ({1}, None, [], 1, ("claimed", 4, 4)),
    "the second, by a hint": ({1}, 5, [], 1, ("held", None, None)),
    "both": ({0, 1}, None, [], 1, ("noted", None, None)),
    "both, by a hint": ({0, 1}, 1, [], 1, ("held", None, None)),
    "the one at the floor": ({1}, None, [], 5, ("noted", None, None)),
    "one before a gap": ({1}, None, [(4, 4, DONE), (7, 8, DONE)], 1, ("noted", None, None)),
    "one that is done": ({0}, None, [(4, 4, DONE)], 1, ("claimed", 5, 8)),
    "the last": ({1}, None, [(4, 4, DONE)], 1, ("noted", None, None)),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_that_another_has(twins: Twins, other: Connection[Any], name: str) -> None:
    blocks, hint, notes, floor, said = BLOCKS[name]
    for block in blocks:
        lock(other, twins, block)
    for place in PLACES:
        if place != HERE:
            lock(other, twins, 0, place)
            lock(other, twins, 1, place)
    note(twins, HERE, notes)
    put(twins, HERE, floor)
    assert take(twins, hint) == said


GAPS: list[tuple[list[tuple[int, int]], int, int | None, int | None]] = [
    ([(1, 30)], 1, None, 31), ([(1, 30), (31, 31)], 1, None, 32), ([(1, 4), (9, 12)], 1, None, 5),
    ([(1, 4), (9, 12)], 1, 6, 6), ([(1, 4), (9, 12)], 1, 9, 13), ([(1, 4), (9, 12)], 1, 11, 13),
    ([(1, 20), (21, 40)], 1, 3, None), ([(1, 20), (22, 40)], 1, 3, 21), ([(1, 20), (22, 40)], 1, 22, None),
    ([(1, 20), (22, 40)], 1, 30, None), ([(9, 12)], 5, None, 5), ([(9, 12)], 9, None, 13), ([], 41, None, None),
    ([(1, 20), (25, 40)], 1, 24, 24), ([(2, 3), (4, 39)], 1, 2, 40), ([(1, 40)], 1, None, None),
    ([(1, 9), (10, 11), (12, 30), (35, 36)], 1, None, 31), ([(3, 4)], 1, None, 1), ([(3, 4)], 1, 2, 2),
]  # fmt: skip


@pytest.mark.parametrize(("ranges", "floor", "start", "gap"), GAPS)
def test_gaps_behind_long_ranges(
    twins: Twins, ranges: list[tuple[int, int]], floor: int, start: int | None, gap: int | None
) -> None:
    """Of a log of forty events; of other partitions something else is noted."""
    twins.conn.execute("delete from gapless.queue_range where lease_no = %s", [twins.leases[HERE]])
    note(twins, HERE, [(first, last, DONE) for first, last in ranges])
    put(twins, HERE, floor)
    twins.conn.execute(
        "insert into gapless.log_segment select (jsonb_populate_record(s, jsonb_build_object("
        "'base_offset', s.base_offset + n, 'last_offset', s.last_offset + n))).*"
        " from gapless.log_segment s, generate_series(2, 32, 2) n"
        " where s.base_offset = 7 and s.topic_id = %s and s.partition_id = 1",
        [twins.topic_ids[TOPIC]],
    )
    ask = "select gapless.queue_gap(%s, 1, %s, 4, %s)"
    assert twins.value(ask, twins.topic_ids[TOPIC], twins.leases[HERE], start) == gap


@pytest.mark.parametrize(
    ("place", "mode", "said"),
    [
        (HERE, "", "busy"), (HERE, "_shared", "claimed"), (("sender", "orders", 2), "", "claimed"),
        (("auditor", "orders", 1), "", "claimed"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("hint", [None, 5])
def test_a_partition_that_another_has(
    twins: Twins, other: Connection[Any], place: Any, mode: str, said: str, hint: int | None
) -> None:
    lock(other, twins, None, place, mode)
    assert take(twins, hint)[0] == said


ASIDE = "select receipt, c_offset from gapless.reserve_aside('sender', %s, 1, %s, 4, 'me', '2199-01-01', null)"


def aside(twins: Twins) -> list[tuple[str, int]]:
    params = [twins.topic_ids[TOPIC], twins.leases[HERE]]
    return [(row[0][0], row[1]) for row in twins.conn.execute(ASIDE, params)]


def test_who_answers_at_this_moment_is_passed(twins: Twins, other: Connection[Any]) -> None:
    """Units and ranges that lapsed, whose rows another session has."""
    has(other, twins, "dead_letter", 7)
    has(other, twins, "queue_range", 2)
    assert [aside(twins) for _ in range(3)] == [[("L", 8)], [("R", 3)], []]


@pytest.mark.parametrize(
    ("table", "first", "said"),
    [("queue_range", 1, None), ("dead_letter", 7, None), ("queue_range", 2, 24), ("dead_letter", 8, 24)],
)  # fmt: skip
def test_of_whose_last_transaction_goes_on_is_asked_again(
    twins: Twins, other: Connection[Any], table: str, first: int, said: int | None
) -> None:
    """The rest lapses meanwhile."""
    twins.conn.execute("set local lock_timeout = '2 s'")
    has(other, twins, table, first)
    assert twins.value("select gapless.end_holder('ann')") == said
    is_held = (noted(twins)[0][2] == HELD, letters(twins, HERE, "token is not null")[0][0])
    assert is_held == (said is None and first == 1, said is None and first == 7)
    left = "select count(*) from gapless.queue_range where deadline > now()"
    assert twins.value(left) == int(is_held[0])


@pytest.mark.parametrize(("block", "said"), [(0, "busy"), (1, "noted"), (None, "busy")])
def test_a_death_while_the_session_is_there(
    twins: Twins, other: Connection[Any], block: int | None, said: str
) -> None:
    lock(other, twins, block)
    ask = "select gapless.note_death(%s, 1, 1, 'ann')"
    assert twins.value(ask, twins.leases[HERE]) == said
    assert (noted(twins)[0][2] == DUE) is (said == "noted")


def test_a_death_while_somebody_answers(twins: Twins, other: Connection[Any]) -> None:
    """What others have locked is theirs; it may commit yet."""
    lock(other, twins, None, HERE, "_shared")
    has(other, twins, "queue_range", 1)
    ask = "select gapless.note_death(%s, 1, 1, 'ann')"
    twins.conn.execute("set local lock_timeout = '2 s'")
    assert twins.value(ask, twins.leases[HERE]) == "done"


def test_while_one_sweeps_others_do_not(twins: Twins, other: Connection[Any]) -> None:
    twins.conn.execute(
        "update gapless.queue_range set deadline = null where lease_no = %s", [twins.leases[HERE]]
    )
    twins.conn.execute("set local lock_timeout = '2 s'")
    other.execute(f"select from gapless.consumer_offsets where {twins.here(GROUP)} for update")
    assert twins.value("select gapless.sweep(%s)", twins.leases[HERE]) == 0


SET = "select gapless.create_group('sender', 'orders', mode => 'queue', block => 8)"


@pytest.mark.parametrize(
    ("place", "mode", "block"),
    [
        (None, "", 8), (HERE, "_shared", 4), (("sender", "orders", 2), "_shared", 4), (("auditor", "orders", 1), "", 8),
        (("sender", "other", 1), "", 8),
    ],
)  # fmt: skip
def test_another_block_waits_until_nobody_has_a_partition(
    twins: Twins, other: Connection[Any], place: Any, mode: str, block: int
) -> None:
    twins.conn.execute("delete from gapless.queue_range")
    if place:
        lock(other, twins, None, place, mode)
    twins.conn.execute(SET)
    ask = "select block from gapless.consumer_group where group_id = 'sender' and topic_id = %s"
    assert twins.value(ask, twins.topic_ids[TOPIC]) == block
    mine = f"group_id = 'sender' and topic_id = {twins.topic_ids[TOPIC]}"
    look = "select from gapless.consumer_offsets where {} for update nowait"
    other.execute(look.format(f"not ({mine})"))
    if block == 4:
        other.execute(look.format(mine))
        return
    with pytest.raises(psycopg.errors.LockNotAvailable):
        other.execute(look.format(mine))


@pytest.mark.parametrize(
    ("place", "begun"),
    [(HERE, True), (("sender", "orders", 0), True), (("sender", "other", 1), False)],
)
def test_a_group_for_which_somebody_works_has_begun(
    twins: Twins, other: Connection[Any], place: Any, begun: bool
) -> None:
    twins.conn.execute("delete from gapless.queue_range")
    twins.conn.execute("delete from gapless.dead_letter")
    lock(other, twins, None, place, "_shared")
    ask = "select gapless.has_begun('sender', %s)"
    assert twins.value(ask, twins.topic_ids[TOPIC]) is begun


IN_WORK = "select in_work from gapless.queue_state('sender') order by topic, partition_id"


def test_who_is_at_work_at_this_moment(
    twins: Twins, other: Connection[Any], module_dsn: str, server_dsn: str
) -> None:
    """Sessions that have the partition's lock, shared; in this database, and not the one that asks."""
    lease = twins.leases[HERE]
    both = f"(7427003::bigint << 32) | {lease}"
    for each in (other, twins.conn):
        lock(each, twins, None, HERE, "_shared")
        lock(each, twins, None, HERE, "_shared")
        each.execute(f"select pg_advisory_xact_lock_shared({both})")
    lock(other, twins, None, ("sender", "orders", 2), "_shared")
    lock(other, twins, None, ("auditor", "orders", 0), "_shared")
    lock(other, twins, None, ("sender", "orders", 0))
    assert [row[0] for row in twins.conn.execute(IN_WORK)] == [0, 1, 1, 0, 0, 0]
    elsewhere = [connect(dsn, role="test") for dsn in (module_dsn, server_dsn)]
    try:
        elsewhere[1].execute("select pg_advisory_lock_shared(7427003, %s)", [lease])
        assert [row[0] for row in twins.conn.execute(IN_WORK)] == [0, 1, 1, 0, 0, 0]
        elsewhere[0].execute("select pg_advisory_lock_shared(7427003, %s)", [lease])
        elsewhere[0].execute("select pg_advisory_lock_shared(7427006, %s)", [lease + 1])
        elsewhere[0].execute("select pg_advisory_lock_shared(%s)", [(7427003 << 32) | lease + 1])
        assert [row[0] for row in twins.conn.execute(IN_WORK)] == [0, 2, 1, 0, 0, 0]
        waits = "select pg_advisory_lock_shared(7427003, {})"  # other has it, alone
        waits = waits.format(twins.leases["sender", "orders", 0])
        elsewhere[0].pgconn.send_query(waits.encode())
        while not twins.value("select count(*) from pg_locks where not granted"):
            pass
        assert [row[0] for row in twins.conn.execute(IN_WORK)] == [0, 2, 1, 0, 0, 0]
        elsewhere[0].cancel()
    finally:
        for each in elsewhere:
            each.close()
