"""Compaction is switched on and off, and what is kept is read: of one topic, by keys and by ids."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.compacted import keep, write
from support.twins import Twins

SET = "select gapless.set_compaction('orders', %s)"
OFF = 'topic "orders" is not compacted: gapless topics alter orders --compact'
LATEST = (
    "select event_key, event_type, payload::text, headers, host_id, user_id, transaction_id, partition_id, c_offset,"
    " created_ts from gapless.latest('orders', %s) order by partition_id, c_offset"
)
EVENTS = (
    "select id, key, event_type, payload::text, headers, host_id, user_id, transaction_id, xid, created_ts, cause,"
    " correlation from {} order by id"
)
HOST = "0ad2e5a4-22a3-4b5c-8e3e-3c3b7e2f1a10"


@pytest.fixture(scope="module")
def settled(shared: Twins) -> Twins:
    """Each event has a key of its own; the fifth has none, but a host."""
    for at in range(1, 9):
        write(shared, at, f"k{at}-", f'"{at}"', f"type {at}", headers='{"h": 1}')
    write(shared, 5, None, '"5"', host_id=HOST)
    shared.conn.execute("update gapless.log_segment set timeline = base_offset")
    return shared


@pytest.fixture
def twins(settled: Twins) -> Iterator[Twins]:
    with settled.undone():
        yield settled


def called(twins: Twins, compact: bool) -> tuple[Any, dict[str, Any]]:
    twins.conn.execute("drop table if exists pg_temp.answer")
    make = f"create temp table answer on commit drop as {SET} as n"
    changed = twins.changes(make, [compact])
    return twins.value("select n from pg_temp.answer"), changed


def audited(action: str) -> str:
    return f"audit {action}  orders None"


@pytest.mark.parametrize(
    ("partitions", "ever", "places"),
    [(3, None, [1, 4, 1]), (3, 5, [1, 4, 1, 1, 6]), (5, 4, [1, 4, 1, 1, 6])],
)
def test_what_is_in_the_log_is_to_be_taken_in(
    twins: Twins, partitions: int, ever: int | None, places: list[int]
) -> None:
    """From its beginning, in every partition that there ever was."""
    conn = twins.conn
    conn.execute("update gapless.topic set compacted = true where name = 'other'")
    conn.execute(
        "insert into gapless.compaction select topic_id, 0, 1 from gapless.topic where name = 'other'"
    )
    conn.execute(
        "update gapless.topic set partitions = %s, partitions_ever = %s where name = 'orders'",
        [partitions, ever],
    )
    conn.execute(
        "insert into gapless.log_start select t.topic_id, p.n, p.first, now() from gapless.topic t,"
        " unnest('{1,4}'::int[], '{4,6}'::bigint[]) p (n, first) where t.name = 'orders'"
    )
    answer, changed = called(twins, compact=True)
    assert answer is True
    assert changed.pop("topic orders") == {"compacted": (False, True)}
    assert changed.pop(audited("compact"))["detail"] == (None, "{}")
    assert {name: row["next_offset"] for name, row in changed.items()} == {
        f"compaction orders {n}": (None, at) for n, at in enumerate(places)
    }
    assert called(twins, compact=True) == (False, {})


def test_what_is_given_up_has_to_be_gone_first(twins: Twins) -> None:
    conn = twins.conn
    conn.execute("insert into gapless.compaction select topic_id, 0, 1 from gapless.topic")
    said = 'topic "orders": rows kept before are still being removed: gapless run does that, or select gapless.compact()'
    assert twins.refused(SET, [True]) == ("GL409", said)
    assert called(twins, compact=False) == (False, {})
    conn.execute("delete from gapless.compaction where topic_id = %s", [twins.topic_ids["orders"]])
    assert called(twins, compact=True)[0] is True


@pytest.mark.parametrize("compacted", [False, True])
def test_of_no_topic(twins: Twins, compacted: bool) -> None:
    missing = 'topic "none" does not exist: create it with gapless topics create none'
    asked = SET.replace("orders", "none")
    assert twins.refused(asked, [compacted]) == ("GL404", missing)
    assert twins.refused("select gapless.latest('none')") == ("GL404", missing)


def test_who_reads_it_is_not_left_alone(twins: Twins) -> None:
    """The first that has not come to the log yet is named; who has come there, or reads elsewhere, is no matter."""
    conn, orders = twins.conn, twins.topic_ids["orders"]
    conn.execute("update gapless.topic set compacted = true")
    twins.seek(5)
    upto = "update gapless.consumer_offsets set latest_upto = {} where topic_id {} {}"
    conn.execute(upto.format(6, "<>", orders).encode())
    conn.execute(upto.format(5, "=", orders).encode())
    with twins.undone():
        answer, changed = called(twins, compact=False)
        assert answer is True
        assert changed.pop(audited("no-compact"))["detail"] == (None, "{}")
        assert changed == {"topic orders": {"compacted": (True, False)}}
        assert called(twins, compact=False) == (False, {})
    conn.execute(upto.format(6, "=", f"{orders} and group_id in ('mail', 'billing')").encode())
    said = 'topic "orders": group "billing" still reads the latest events: let it come to the log first, seek it, or drop it'
    assert twins.refused(SET, [False]) == ("GL409", said)


def _log(twins: Twins, *offsets: int) -> list[Any]:
    """Events of orders as a reader of the log gets them, with their partitions."""
    query = (
        "select coalesce(r.key, r.host_id), r.event_type, r.payload::text, r.headers, r.host_id, r.user_id,"
        " r.transaction_id, p, r.c_offset, r.created_ts from generate_series(0, 2) p"
        " cross join lateral gapless.read('orders', p, 1) r where r.c_offset = any (%s) order by p, r.c_offset"
    )
    return twins.conn.execute(query, [list(offsets)]).fetchall()


def test_what_is_kept_is_read_by_its_key(twins: Twins) -> None:
    """As the log has it; of one topic."""
    conn = twins.conn
    conn.execute("update gapless.topic set compacted = (name = 'orders')")
    orders, other = twins.topic_ids["orders"], twins.topic_ids["other"]
    keep(twins, f"topic_id = {other}", 1, 2, 3, 4, 6)
    keep(twins, f"topic_id = {orders}", 1, 4, 6)
    keep(twins, f"topic_id = {orders} and partition_id = 1", 5)
    log = _log(twins, 1, 4, 5, 6)
    rows = [row for row in log if row[8] != 5 or row[7] == 1]
    assert len(rows) == 10
    assert conn.execute(LATEST, [None]).fetchall() == rows
    for row in rows:
        assert conn.execute(LATEST, [row[0]]).fetchall() == [row]
    for nobody in ("k2-1", "k3-1", ""):
        assert conn.execute(LATEST, [nobody]).fetchall() == []
    for key in (None, "k1-1"):
        refused = twins.refused("select * from gapless.latest('other', %s)", [key])
        assert refused == ("GL409", OFF.replace("orders", "other"))


def numbers(twins: Twins) -> dict[int, int]:
    return dict(
        twins.conn.execute("select c_offset, message_id from gapless.read('orders', 1)").fetchall()
    )


def test_events_are_read_by_their_ids(twins: Twins) -> None:
    """Those that are kept; what the log has still is not asked for here."""
    here = f"topic_id = {twins.topic_ids['orders']} and partition_id = 1"
    keep(twins, here, 1, 2, 4)
    keep(twins, f"not ({here})", 1, 7, 8)
    ids = numbers(twins)
    ask = EVENTS.format("gapless.events_beside_of(%s)")
    log = EVENTS.format("gapless.outbox_message_t where id = any (%s)")
    for offsets in ((1,), (1, 4), (2, 1, 7), (8,), ()):
        wanted = [ids[each] for each in offsets]
        found = [ids[each] for each in offsets if each in (1, 2, 4)]
        assert twins.conn.execute(ask, [wanted]).fetchall() == (
            twins.conn.execute(log, [found]).fetchall()
        )


# Which are asked for, up to before which retention has dropped them, which are in the log still; which is refused.
REPLACED: list[tuple[list[int], int, list[int], int | None]] = [
    ([3], 4, [], 3), ([3], 3, [], None), ([3], 4, [3], None), ([1], 4, [], None), ([1, 2], 9, [], None),
    ([1, 3], 4, [], 3), ([3, 5], 5, [], 3), ([3, 5], 9, [3], 5), ([3, 5], 5, [3], None), ([], 9, [], None),
    ([1, 6], 6, [], None), ([1, 6], 7, [], 6),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "dropped", "there", "refused"), REPLACED)
def test_what_was_replaced_is_to_be_asked_for_anew(
    twins: Twins, asked: list[int], dropped: int, there: list[int], refused: int | None
) -> None:
    """What retention dropped, and is not kept. 1 and 2 are kept, and of elsewhere others; the log has the rest."""
    here = f"topic_id = {twins.topic_ids['orders']} and partition_id = 1"
    ids = numbers(twins)
    keep(twins, here, 1, 2)
    keep(twins, f"not ({here})", 3, 6)
    twins.lose(*[each for each in asked if each not in there])
    upto = ids[dropped] if dropped in ids else ids[8] + 1
    twins.conn.execute("update gapless.retention_state set dropped_upto = %s", [upto])
    wanted = [ids[each] for each in asked]
    for call in ("gapless.refuse_dropped(%s)", "* from gapless.events_beside_of(%s)"):
        if refused is None:
            twins.conn.execute(f"select {call}".encode(), [wanted])
        else:
            said = f"event {ids[refused]} was dropped, and is not the latest of its key any more: try again"
            assert twins.refused(f"select {call}", [wanted]) == ("40001", said)
