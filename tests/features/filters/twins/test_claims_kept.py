"""claim_kept(): what a group with a filter claims, and which events of it are kept and come along."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.claims import OTHER, TOKEN
from support.filtered import EVENTS, NUL, ROWS, ids, write
from support.subscribed import number, subscribe
from support.twins import SEEKS, SEEKS_NO_MORE, Changes, Twins

CLAIM = (
    "select * from gapless.claim_kept('billing', %(topic)s, %(partition)s, %(epoch)s, %(token)s, %(batch)s,"
    " %(most)s, null, 'transaction', %(scan)s, %(asks)s)"
)
UNASKED = "select from gapless.claim_kept('billing', %s, 1, 5, %s, 100, 100, null)"
SEGMENT = (
    "select base_offset, message_ids, unit_ends::text, timeline from gapless.log_segment"
    " where topic_id = %s and partition_id = 1 and base_offset between %s - 2 and %s order by 1"
)
PLACE = "consumer_offsets billing orders 1"
TALLY = "filter_tally billing orders 1"
END_OF = {1: 2, 2: 2, 3: 3, 4: 6, 5: 6, 6: 6, 7: 7, 8: 8}
KEPT = ("kept", "kept_offsets", "filter_errors", "lost_id", "matched", "asks")
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def settled(shared: Twins) -> Twins:
    """All partitions of all groups have one owner."""
    write(shared)
    shared.conn.execute("update gapless.consumer_offsets set epoch = 5, token = %s", [TOKEN])
    return shared


@pytest.fixture
def twins(settled: Twins) -> Iterator[Twins]:
    with settled.undone():
        settled.conn.execute("set local statement_timeout = '5s'")
        yield settled


@pytest.fixture
def filtered(twins: Twins) -> Twins:
    """Every group has a filter; the one of this group in this topic takes what is paid, and a."""
    for group, topic, types in (
        ("mail", "orders", "{b}"), ("billing", "other", "{*}"), ("mail", "other", "{c}"),
        ("billing", "orders", "{a,order.*}"),
    ):  # fmt: skip
        twins.conn.execute("select gapless.set_filter(%s, %s, %s)", [group, topic, types])
    return twins


def let_take(twins: Twins, types: str | None, condition: str | None = None) -> None:
    call = "select gapless.set_filter('billing', 'orders', %s::text[], %s)"
    twins.conn.execute(call, [types, condition])


def put(twins: Twins, change: str, where: str = "true") -> None:
    twins.conn.execute(SEEKS)
    twins.conn.execute(f"update gapless.consumer_offsets set {change} where {where}".encode())
    twins.conn.execute(SEEKS_NO_MORE)


def claim(twins: Twins, *, looks: bool = True, **more: Any) -> tuple[Rows, Rows, Changes]:
    """Its rows, then those of events, each by its columns, and what changed, if somebody looks."""
    params = {
        "topic": twins.topic_ids["orders"], "partition": 1, "epoch": 5, "token": TOKEN, "batch": 100,
        "most": 100, "scan": 100, "asks": False,
    }  # fmt: skip
    twins.conn.execute("drop table if exists pg_temp.answer")
    twins.conn.execute("delete from gapless.audit")
    statement = f"create temp table answer on commit drop as {CLAIM}"
    run: Any = twins.changes if looks else twins.conn.execute
    changed = run(statement, params | more)
    cursor = twins.conn.execute("select * from pg_temp.answer")
    names = [each.name for each in cursor.description or ()]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    heads = [row for row in rows if row["outcome"] is not None]
    return heads, [row for row in rows if row["outcome"] is None], changed


def assert_events(twins: Twins, events: Rows, offsets: list[int]) -> None:
    """Exactly these came, with nothing but their columns."""
    found = sorted(tuple(each.values())[15:] for each in events)
    assert found == twins.conn.execute(ROWS, [ids(twins, offsets)]).fetchall()
    assert all(tuple(each.values())[:15] == (None,) * 15 for each in events)


# The types that it takes, where it is, how many it wants, how many it looks at; up to where it claims, what it keeps.
CLAIMS: list[tuple[str, int, int, int, int, list[int]]] = [
    ("{order.paid}", 1, 1, 100, 3, [3]), ("{a}", 1, 2, 100, 6, [1, 4]), ("{b}", 1, 2, 100, 7, [2, 7]),
    ("{a}", 1, 1, 100, 2, [1]), ("{a}", 2, 1, 100, 6, [4]), ("{a}", 5, 1, 100, 8, [8]),
    ("{a}", 1, 3, 100, 8, [1, 4, 8]), ("{a}", 1, 4, 100, 8, [1, 4, 8]), ("{none}", 1, 1, 100, 8, []),
    ("{none}", 1, 1, 4, 6, []), ("{none}", 1, 1, 3, 3, []), ("{none}", 1, 1, 1, 2, []),
    ("{a}", 1, 9, 3, 3, [1]), ("{a}", 1, 9, 4, 6, [1, 4]), ("{b}", 1, 9, 1, 2, [2]),
    ("{a,b}", 1, 3, 100, 6, [1, 2, 4]), ("{*}", 1, 1, 100, 2, [1, 2]), ("{orderXpaid}", 4, 1, 1, 6, [5]),
    ("{a}", 1, 0, 100, 2, [1]), ("{a}", 8, 1, 1, 8, [8]), ("{order*}", 3, 2, 100, 6, [3, 5]),
]  # fmt: skip


@pytest.mark.few(len(CLAIMS))
@pytest.mark.parametrize("case", CLAIMS, ids=str)
def test_what_is_claimed_and_kept(
    filtered: Twins, case: tuple[str, int, int, int, int, list[int]]
) -> None:
    types, at, batch, scan, last, kept = case
    let_take(filtered, types.replace("none", "nothing"))
    put(filtered, f"next_offset = {at}")
    heads, events, changed = claim(filtered, batch=batch, scan=scan)
    topic = filtered.topic_ids["orders"]
    segments = filtered.conn.execute(SEGMENT, [topic, at, last]).fetchall()
    assert [
        (row["base_offset"], row["message_ids"], row["unit_ends"], row["timeline"]) for row in heads
    ] == segments
    assert {(row["outcome"], row["first_offset"], row["last_offset"]) for row in heads} == {
        ("claimed", at, last)
    }
    ours = {"kept": ids(filtered, kept), "kept_offsets": kept}
    assert [{name: row[name] for name in KEPT} for row in heads] == [
        dict.fromkeys(KEPT) | (ours if row is heads[0] else {}) for row in heads
    ]
    assert_events(filtered, events, kept)
    tally = changed.pop(TALLY)
    assert changed == {PLACE: {"next_offset": (at, last + 1)}}
    assert tally["kept"] == (None, len(kept))
    assert tally["passed"] == (None, last + 1 - at - len(kept))


@pytest.mark.parametrize(
    ("at", "stop", "last"), [(1, 4, 3), (1, 5, 6), (1, 9, 8), (4, 4, 6), (7, 2, 7), (1, 2, 2)]
)
def test_a_replay_looks_no_further_than_its_stop(
    filtered: Twins, at: int, stop: int, last: int
) -> None:
    put(filtered, f"next_offset = {at}, stop_offset = {stop}", filtered.here())
    heads, _, _ = claim(filtered, looks=False)
    assert {(row["first_offset"], row["last_offset"]) for row in heads} == {(at, last)}


@pytest.mark.parametrize(("most", "comes"), [(3, True), (2, False), (4, True), (0, False)])
def test_so_many_events_come_along(filtered: Twins, most: int, comes: bool) -> None:
    let_take(filtered, "{a}")
    _, events, _ = claim(filtered, looks=False, most=most)
    assert_events(filtered, events, [1, 4, 8] if comes else [])


# What is lost, where the group is, how many it wants; what it claims, keeps, and which event it misses.
LOST: list[tuple[set[int], int, int, int, list[int], int | None]] = [
    ({5}, 1, 9, 3, [1, 2, 3], None), ({5}, 4, 9, 6, [4], 5), ({6}, 4, 9, 6, [4, 5], 6), ({6}, 4, 1, 6, [4, 5], 6),
    ({4}, 4, 9, 6, [], 4), ({7}, 1, 9, 6, [1, 2, 3, 4, 5, 6], None), ({7}, 7, 9, 7, [], 7),
    ({1}, 1, 9, 2, [], 1), ({2}, 1, 1, 2, [1], 2), ({3}, 1, 9, 2, [1, 2], None), ({8}, 1, 1, 2, [1, 2], None),
    ({4, 8}, 7, 9, 7, [7], None), ({6, 8}, 1, 1, 2, [1, 2], None), ({6}, 3, 2, 6, [3, 4, 5], 6),
]  # fmt: skip


@pytest.mark.few(len(LOST))
@pytest.mark.parametrize("case", LOST, ids=str)
def test_what_is_whole_before_a_loss_is_claimed(
    filtered: Twins, case: tuple[set[int], int, int, int, list[int], int | None]
) -> None:
    """A unit with a loss is claimed alone, to be seen: no other is torn for it."""
    lost, at, batch, last, kept, missed = case
    numbers = ids(filtered, list(range(1, 9)))
    let_take(filtered, "{*}")
    put(filtered, f"next_offset = {at}")
    filtered.lose(*lost)
    heads, events, _ = claim(filtered, looks=False, batch=batch)
    first = heads[0]
    assert (first["outcome"], first["first_offset"], first["last_offset"]) == ("claimed", at, last)
    assert first["kept_offsets"] == kept
    assert first["lost_id"] == (numbers[missed - 1] if missed else None)
    assert sorted(each["id"] for each in events) == [numbers[each - 1] for each in kept]


@pytest.mark.parametrize(
    ("at", "batch", "kept", "errors"),
    [
        (1, 100, [2, 3, 4, 5, 6, 7], [None, None, NUL, None, None, "overflows"]), (1, 2, [2, 3], None),
        (4, 1, [4, 5, 6], [NUL, None, None]), (5, 1, [5, 6], None),
    ],
)  # fmt: skip
def test_why_a_filter_could_not_be_asked(
    filtered: Twins, at: int, batch: int, kept: list[int], errors: list[str | None] | None
) -> None:
    """Said of each that is kept, when it is so of one of them."""
    let_take(filtered, None, "$.n > 1")
    put(filtered, f"next_offset = {at}")
    heads, _, _ = claim(filtered, looks=False, batch=batch)
    assert heads[0]["kept_offsets"] == kept
    found = heads[0]["filter_errors"]
    assert (found is None) == (errors is None)
    for said, expected in zip(found or [], errors or [], strict=True):
        assert (said is None) == (expected is None)
        assert expected is None or expected in said
    unasked = filtered.value("select unasked from gapless.filter_tally")
    assert unasked == sum(each is not None for each in errors or [])


WHY_NOT: dict[str, tuple[str, dict[str, Any], str]] = {
    "no such place": ("", {"partition": 3}, "unplaced"),
    "no filter": ("select gapless.clear_filter('billing', 'orders')", {}, "unfiltered"),
    "another owner": ("", {"token": OTHER}, "fenced"),
    "paused": ("select gapless.pause('billing', 'orders', 1)", {}, "idle"),
    "the segment is lost": ("delete from gapless.log_segment where base_offset = 1", {}, "hole"),
    "it begins with the newest": ("update gapless.consumer_offsets set latest_upto = 2, filter_no = 0", {}, "claimed"),
    "others begin so": ("update gapless.consumer_offsets set latest_upto = 2 where partition_id <> 1", {}, "claimed"),
    "it has begun": ("update gapless.consumer_offsets set latest_upto = 1, filter_no = 0", {}, "unfiltered"),
}  # fmt: skip


@pytest.mark.parametrize("name", WHY_NOT)
def test_what_else_it_may_say(filtered: Twins, name: str) -> None:
    change, more, outcome = WHY_NOT[name]
    if change:
        filtered.conn.execute(change.encode())
    heads, events, changed = claim(filtered, **more)
    assert {row["outcome"] for row in heads} == {outcome}
    if outcome != "claimed":
        assert len(heads) == 1
        assert (events, changed) == ([], {})
        assert [heads[0][column] for column in KEPT] == [None] * len(KEPT)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ("", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("select gapless.set_direct('other')", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("select gapless.set_direct('orders')", [1, 2, 4, 5, 6, 7, 8]),
        ("{0}; update gapless.consumer_group set stands_for = 'mail' where {1}", [1, 3, 4, 5, 6, 7, 8]),
        ("{0}; update gapless.consumer_group set stands_for = 'mail' where not ({1})", [1, 2, 4, 5, 6, 7, 8]),
    ],
)  # fmt: skip
def test_what_is_for_one_group_others_pass(filtered: Twins, change: str, kept: list[int]) -> None:
    """Where a topic takes such messages: the second is for billing, the third for mail."""
    assert [group for _, _, group in EVENTS[:3]] == [None, "billing", "mail"]
    here = f"group_id = 'billing' and topic_id = {filtered.topic_ids['orders']}"
    let_take(filtered, "{*}")
    filtered.conn.execute(change.format("select gapless.set_direct('orders')", here).encode())
    heads, _, _ = claim(filtered, looks=False)
    assert heads[0]["kept_offsets"] == kept


@pytest.fixture
def subscribed(twins: Twins) -> Twins:
    """The group and its neighbours take what subscriptions match: of this one the sixth event."""
    for group, topic, n in (
        ("mail", "orders", 2),
        ("billing", "other", 3),
        ("billing", "orders", 6),
    ):
        params = {"n": n}
        subscribe(twins, "ann", (group, topic), match={"n": "$.n"}, params=params)
    return twins


# How many it wants and looks at: what it claims. A subscription is a look-up, so a claim looks at 1000 or a batch.
@pytest.mark.parametrize(
    ("batch", "scan", "last"),
    [(1, 100, 6), (1, 3, 3), (2, 100, 6), (3, 100, 7), (9, 2, 2), (9, 100, 8)],
)
def test_what_subscriptions_match(subscribed: Twins, batch: int, scan: int, last: int) -> None:
    heads, events, changed = claim(subscribed, batch=batch, scan=scan)
    ann = str(number(subscribed, "ann"))
    odd = [each for each in (4, 7) if each <= last]  # no jsonb
    found = dict(zip(heads[0]["kept_offsets"], heads[0]["matched"], strict=True))
    assert found == dict.fromkeys(odd) | ({6: ann} if last >= 6 else {})
    assert (heads[0]["last_offset"], heads[0]["asks"]) == (last, False)
    assert [(row["matched"], row["asks"]) for row in heads[1:]] == [(None, None)] * len(heads[1:])
    assert_events(subscribed, events, sorted(found))
    assert changed[TALLY]["kept"] == (None, len(found))


@pytest.mark.parametrize(("batch", "last"), [(1, 2), (4, 6), (8, 8)])
def test_conditions_in_sql_are_the_callers_to_ask(subscribed: Twins, batch: int, last: int) -> None:
    """It is told which events the others match, gets none of them, and counts; what neighbours ask is theirs."""
    for place in (("mail", "orders"), ("billing", "other")):
        subscribe(subscribed, "asked", place, sql="true")
    heads, _, changed = claim(subscribed)
    assert (heads[0]["asks"], TALLY in changed) == (False, True)
    put(subscribed, "next_offset = 1")
    subscribed.conn.execute("delete from gapless.filter_tally")
    subscribe(subscribed, "asked", sql="true")
    given = [subscribed.topic_ids["orders"], TOKEN]
    state, text = subscribed.refused(UNASKED, given)
    assert (state, 'group "billing" has subscriptions with SQL conditions' in text) == (
        "GL409",
        True,
    )
    heads, events, changed = claim(subscribed, batch=batch, asks=True)
    assert (heads[0]["last_offset"], heads[0]["asks"]) == (last, True)
    assert set(heads[0]["kept_offsets"]) == {each for each in (4, 6, 7) if each <= last}
    assert (events, set(changed)) == ([], {PLACE})
