"""claim_latest(): what a group claims that begins with the newest event of each key, until it comes to the log."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.compacted import is_here, keep, write
from support.twins import SEEKS, SEEKS_NO_MORE, Changes, Twins

TOKEN = "00000000-0000-4000-8000-000000000001"
OTHER = "00000000-0000-4000-8000-000000000002"
CLAIM = (
    "select * from gapless.claim_latest('billing', %(topic)s, %(partition)s, %(epoch)s, %(token)s, %(batch)s,"
    " %(most)s, %(scan)s)"
)
ASK = (
    "select kept_offsets, filter_errors"
    " from gapless.claim_latest('billing', %s, 1, 5, %s, 100, 0, 100)"
)
EVENTS = (
    "select id, key, event_type, payload::text, headers, host_id, user_id, transaction_id, xid, created_ts, cause,"
    " correlation from gapless.outbox_message_t where id = any (%s) order by id"
)
KEPT = (2, 3, 5, 8)
PLACE = "consumer_offsets billing orders 1"
TIMELINES = {1: 11, 4: 14, 7: 17}


@pytest.fixture(scope="module")
def settled(shared: Twins) -> Twins:
    """Each event has a key; of this place four are kept, of others others. Everywhere is an owner, at the first."""
    conn = shared.conn
    for at in range(1, 9):
        write(
            shared,
            at,
            f"k{at}-",
            f'{{"n": {at}}}',
            "order.paid" if at % 2 else "orderXpaid",
            headers='{"h": 1}',
        )
    conn.execute("update gapless.log_segment set timeline = base_offset + 10")
    keep(shared, f"not ({is_here(shared)})", 1, 4, 6, 7)
    keep(shared, is_here(shared), *KEPT)
    conn.execute(
        "update gapless.consumer_offsets set epoch = 5, token = %s, latest_upto = 9", [TOKEN]
    )
    return shared


@pytest.fixture
def twins(settled: Twins) -> Iterator[Twins]:
    with settled.undone():
        yield settled


def put(twins: Twins, change: str, where: str) -> None:
    twins.conn.execute(SEEKS)
    twins.conn.execute(f"update gapless.consumer_offsets set {change} where {where}".encode())
    twins.conn.execute(SEEKS_NO_MORE)


def claim(twins: Twins, **more: Any) -> tuple[list[dict[str, Any]], Changes]:
    """Its rows, by their columns, and what changed."""
    params = {
        "topic": twins.topic_ids["orders"], "partition": 1, "epoch": 5, "token": TOKEN, "batch": 100,
        "most": 100, "scan": 100,
    }  # fmt: skip
    twins.conn.execute("drop table if exists pg_temp.answer")
    changed = twins.changes(f"create temp table answer on commit drop as {CLAIM}", params | more)
    cursor = twins.conn.execute("select * from pg_temp.answer")
    names = [each.name for each in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor], changed


def offsets(twins: Twins) -> dict[int, int]:
    return dict(
        twins.conn.execute("select c_offset, message_id from gapless.read('orders', 1)").fetchall()
    )


# Where it is, where the log begins, how many it wants, how far it looks; up to where it claims, and from where on
# there is which event (none: nothing is there up to the end).
CLAIMS: list[tuple[int, int, int, int, int, list[tuple[int, int | None]]]] = [
    (1, 9, 100, 100, 8, [(1, 2), (3, 3), (4, 5), (6, 8)]),
    (1, 9, 2, 100, 3, [(1, 2), (3, 3)]),
    (1, 9, 3, 100, 5, [(1, 2), (3, 3), (4, 5)]),
    (1, 9, 4, 100, 8, [(1, 2), (3, 3), (4, 5), (6, 8)]),
    (1, 9, 5, 100, 8, [(1, 2), (3, 3), (4, 5), (6, 8)]),
    (1, 8, 100, 100, 7, [(1, 2), (3, 3), (4, 5), (6, None)]),
    (1, 9, 100, 4, 4, [(1, 2), (3, 3), (4, None)]),
    (1, 9, 100, 1, 1, [(1, None)]),
    (1, 9, 100, 0, 1, [(1, None)]),
    (1, 9, 0, 100, 2, [(1, 2)]),
    (1, 9, -1, 100, 2, [(1, 2)]),
    (6, 8, 1, 100, 7, [(6, None)]),
    (5, 9, 1, 100, 5, [(5, 5)]),
    (4, 6, 100, 100, 5, [(4, 5)]),
    (2, 9, 2, 2, 3, [(2, 2), (3, 3)]),
    (2, 3, 9, 9, 2, [(2, 2)]),
    (8, 9, 9, 9, 8, [(8, 8)]),
]  # fmt: skip


@pytest.mark.parametrize("case", CLAIMS, ids=str)
def test_what_is_claimed(
    twins: Twins, case: tuple[int, int, int, int, int, list[tuple[int, int | None]]]
) -> None:
    """Each event is a unit of its own, at its offset; all others of the range have no id."""
    at, upto, batch, scan, last, pieces = case
    put(twins, f"next_offset = {at}, latest_upto = {upto}", "true")
    rows, changed = claim(twins, batch=batch, scan=scan)
    assert changed == {PLACE: {"next_offset": (at, last + 1)}}
    ids = offsets(twins)
    held = [each for _, each in pieces if each]
    first = rows[0]
    assert (first["kept_offsets"], first["kept"]) == (held, [ids[each] for each in held])
    segments = [row for row in rows if row["outcome"] is not None]
    for row, (base, end) in zip(segments, pieces, strict=True):
        passed = [0] * ((end or last + 1) - base)
        assert row["message_ids"] == passed + ([ids[end]] if end else [])
        assert row["unit_ends"] == "1" * len(row["message_ids"])
        assert (row["outcome"], row["first_offset"], row["last_offset"]) == ("claimed", at, last)
        assert row["base_offset"] == base
        if end:
            assert row["timeline"] == TIMELINES[(end - 1) // 3 * 3 + 1]
        assert (
            row is first or (row["kept"], row["kept_offsets"], row["filter_errors"]) == (None,) * 3
        )
    assert {row["claim_xid"] for row in segments} == {
        twins.value("select pg_current_xact_id()::text")
    }
    where = "select ctid::text from gapless.consumer_offsets where " + twins.here()
    assert {row["place_after"] for row in segments} == {twins.value(where)}
    assert twins.value("select current_setting('gapless.chain')") == "open"
    assert events(rows) == twins.conn.execute(EVENTS, [[ids[each] for each in held]]).fetchall()


def events(rows: list[dict[str, Any]]) -> list[Any]:
    """The events that come with a claim, by their ids."""
    names = "id key event_type payload headers host_id user_id transaction_id xid created_ts cause correlation"
    found = [row for row in rows if row["outcome"] is None]
    for row in found:
        row["payload"] = json.dumps(row["payload"])
        assert {row[name] for name in ("first_offset", "base_offset", "lost_id", "asks")} == {None}
    return sorted(tuple(row[name] for name in names.split()) for row in found)


@pytest.mark.parametrize(("most", "come"), [(3, False), (4, True), (5, True), (0, False)])
def test_more_events_than_are_wanted_do_not_come_with_it(
    twins: Twins, most: int, come: bool
) -> None:
    """They are read by their ids then."""
    rows, _ = claim(twins, most=most)
    assert len(rows[0]["kept"]) == 4
    assert len(events(rows)) == (4 if come else 0)


WHY_NOT: dict[str, tuple[str, dict[str, Any], tuple[str, int | None, int | None]]] = {
    "a newer owner": ("", {"epoch": 4}, ("fenced", 3, None)),
    "an older owner": ("", {"epoch": 6}, ("fenced", 3, None)),
    "another token": ("", {"token": OTHER}, ("fenced", 3, None)),
    "no token": ("", {"token": None}, ("fenced", 3, None)),
    "nobody owns it": ("update gapless.consumer_offsets set token = null where {here}", {}, ("fenced", 3, None)),
    "no such place": ("", {"partition": 3}, ("unplaced", None, None)),
    "at the log": ("update gapless.consumer_offsets set latest_upto = 3 where {here}", {}, ("filtered", 3, None)),
    "in the log": ("update gapless.consumer_offsets set latest_upto = 2 where {here}", {}, ("filtered", 3, None)),
    "never": ("update gapless.consumer_offsets set latest_upto = null where {here}", {}, ("filtered", 3, None)),
    "paused": ("select gapless.pause('billing', 'orders')", {}, ("idle", 3, None)),
    "paused here": ("select gapless.pause('billing', 'orders', 1)", {}, ("idle", 3, None)),
    "stopped": ("update gapless.consumer_offsets set stopped_at = 7 where {here}", {}, ("beyond", 3, 7)),
    "paused and stopped": (
        (
            "select gapless.pause('billing', 'orders');"
            " update gapless.consumer_offsets set stopped_at = 7 where {here}"
        ),
        {}, ("idle", 3, 7),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WHY_NOT)
def test_when_nothing_is_claimed(twins: Twins, name: str) -> None:
    change, given, (outcome, first, last) = WHY_NOT[name]
    put(twins, "next_offset = 3", "true")
    if change:
        twins.conn.execute(change.format(here=twins.here()).encode())
    rows, changed = claim(twins, **given)
    assert [(row["outcome"], row["first_offset"], row["last_offset"]) for row in rows] == [
        (outcome, first, last)
    ]
    assert changed == {}


@pytest.mark.parametrize(
    "change",
    [
        "select gapless.pause('mail', 'orders'), gapless.pause('billing', 'other'), gapless.pause('billing', 'orders', 2)",
        "update gapless.consumer_offsets set stopped_at = 3, latest_upto = 2 where not ({here})",
        "update gapless.consumer_offsets set epoch = 9 where not ({here})",
        "update gapless.consumer_offsets set token = null where not ({here})",
        "update gapless.consumer_offsets set filter_no = 7 where not ({here})",
        "delete from gapless.latest where not ({place})",
    ],
)
def test_what_is_so_elsewhere_is_in_nobody_s_way(twins: Twins, change: str) -> None:
    put(twins, "next_offset = 1", f"not ({twins.here()})")
    put(twins, "next_offset = 3", twins.here())
    twins.conn.execute(change.format(here=twins.here(), place=is_here(twins)).encode())
    rows, changed = claim(twins)
    assert (rows[0]["outcome"], rows[0]["kept_offsets"]) == ("claimed", [3, 5, 8])
    assert changed == {PLACE: {"next_offset": (3, 9)}}


TALLY = "filter_tally billing orders 1"
# Types and a condition; what is kept, and why it could not be asked.
FILTERS: list[tuple[list[str] | None, str | None, list[int], list[str | None] | None]] = [
    (["order.paid"], None, [3, 5], None),
    (["order*"], None, [2, 3, 5, 8], None),
    (["x", "*Xpaid"], None, [2, 8], None),
    (None, "$.n > 3", [5, 8], None),
    (["order.*"], "$.n > $min", [5], None),
    (["nothing"], None, [], None),
    (["x*"], "$.n > 3", [], None),
]  # fmt: skip


@pytest.mark.parametrize("case", FILTERS, ids=str)
def test_a_filter_is_asked_about_each(
    twins: Twins, case: tuple[list[str] | None, str | None, list[int], list[str | None] | None]
) -> None:
    """What it does not keep is passed, and counted; others have filters that keep nothing."""
    types, condition, held, errors = case
    conn = twins.conn
    for place in (("mail", "orders"), ("billing", "other")):
        conn.execute("select gapless.set_filter(%s, %s, '{none}')", place)
    conn.execute(
        "select gapless.set_filter('billing', 'orders', %s, %s, %s)",
        [types, condition, '{"min": 3}' if "min" in str(condition) else "{}"],
    )
    rows, changed = claim(twins)
    ids = offsets(twins)
    first = rows[0]
    assert (first["kept_offsets"], first["filter_errors"]) == (held, errors)
    assert [row[0] for row in events(rows)] == [ids[each] for each in held]
    tally = changed.pop(TALLY)
    assert [tally[each] for each in ("kept", "passed")] == [
        (None, len(held)),
        (None, 4 - len(held)),
    ]
    assert changed == {PLACE: {"next_offset": (1, 9)}}
    pieces = [row["message_ids"][-1] for row in rows if row["outcome"]]
    assert pieces == [ids[each] for each in KEPT], "also what it does not keep has its place"


def test_what_cannot_be_asked_about_is_kept(twins: Twins) -> None:
    """And why: with the offset in its tally."""
    twins.conn.execute(
        f"update gapless.latest set payload = '\"\\u0000\"' where c_offset in (3, 5) and {is_here(twins)}".encode()
    )
    twins.conn.execute("select gapless.set_filter('billing', 'orders', null, '$.n > 7')")
    params = [twins.topic_ids["orders"], TOKEN]
    rows = twins.conn.execute(ASK, params).fetchall()
    why = "the filter could not be asked: unsupported Unicode escape sequence"
    assert rows[0] == ([3, 5, 8], [why, why, None])
    tallies = (
        "select group_id, topic_id, partition_id, kept, passed, unasked, unasked_offset, unasked_why"
        " from gapless.filter_tally"
    )
    here = ("billing", twins.topic_ids["orders"], 1)
    assert twins.conn.execute(tallies).fetchall() == [(*here, 3, 1, 2, 5, why)]


@pytest.mark.parametrize("number", ["0", "-1", "{mail}", "{other}"])
def test_another_number_is_not_that_of_its_filter(twins: Twins, number: str) -> None:
    """Of its place: then nothing is asked, neither its filter nor those of others."""
    conn = twins.conn
    for place in (("mail", "orders"), ("billing", "other"), ("billing", "orders")):
        conn.execute("select gapless.set_filter(%s, %s, '{none}')", place)
    ask = "select filter_no from gapless.group_filter where group_id = %s and topic_id = %s"
    words = {
        "mail": twins.value(ask, "mail", twins.topic_ids["orders"]),
        "other": twins.value(ask, "billing", twins.topic_ids["other"]),
    }
    put(twins, f"filter_no = {number.format(**words)}", twins.here())
    rows, changed = claim(twins)
    assert rows[0]["kept_offsets"] == list(KEPT)
    assert (TALLY in changed) == (number != "0")
