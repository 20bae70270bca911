"""note_deliveries(): what ended and what begins, of one partition of a group, under one fence."""

from typing import Any

import pytest

from support.claims import OTHER, TOKEN
from support.twins import Changes, Twins

NOTE = (
    "create temp table told on commit drop as select * from gapless.note_deliveries("
    f"'billing', {{orders}}, 1, 5, '{TOKEN}', 4, '{{ended}}', '{{done}}', '{{begun}}', '{{last}}', {{upto}})"
)
EVERYWHERE = (
    "insert into gapless.delivery select group_id, topic_id, partition_id, n, n, 5, 3, false"
    " from gapless.consumer_offsets, generate_series(4, 6) n"
)
LETTERS = (
    "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset, events,"
    " transaction_id, state, attempts, reason, exception)"
    " select group_id, topic_id, partition_id, n, n + 1, 1, gen_random_uuid(), 'parked', 1, 'no', 'no'"
    " from gapless.consumer_offsets, unnest(%s::int[]) n"
)
AT = "delivery billing orders 1"
OFFSETS = "consumer_offsets billing orders 1"
OVER = {"crashes": (3, 0)}
DONE = {"crashes": (3, 0), "finished": (False, True)}


@pytest.fixture
def begun(twins: Twins) -> Twins:
    """All groups are at 4 with one owner, and units at 4, 5 and 6 began three times."""
    twins.seek(4)
    twins.conn.execute("update gapless.consumer_offsets set epoch = 5, token = %s", [TOKEN])
    twins.conn.execute(EVERYWHERE)
    return twins


def note(
    twins: Twins, ended: str = "", done: str = "", begun: str = "", last: str = "", upto: int = 4
) -> Changes:
    words = {"ended": ended, "done": done, "begun": begun, "last": last, "upto": upto}
    braced = {key: f"{{{value}}}" if key != "upto" else value for key, value in words.items()}
    return twins.changes(NOTE.format(**twins.topic_ids, **braced))


def gone(first: int) -> dict[str, Any]:
    return {
        "group_id": ("billing", None), "partition_id": (1, None), "first_offset": (first, None),
        "last_offset": (first, None), "attempts": (5, None),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ended", "done", "changed"),
    [
        ("4", "", {4: OVER}), ("4,6", "6", {4: OVER, 6: DONE}), ("", "5", {5: DONE}),
        ("5", "5", {5: DONE}), ("7", "8", {}), ("", "", {}),
    ],
)  # fmt: skip
def test_what_ended(begun: Twins, ended: str, done: str, changed: dict[int, Any]) -> None:
    """The offset's row is locked, and no COMMIT is allowed for what was claimed before."""
    assert note(begun, ended, done) == {f"{AT} {first}": what for first, what in changed.items()}
    xid = begun.value("select pg_current_xact_id()::text")
    locked = (
        "select group_id, topic_id, partition_id from gapless.consumer_offsets where xmax = %s::xid"
    )
    here = [("billing", begun.topic_ids["orders"], 1)]
    assert begun.conn.execute(locked, [xid]).fetchall() == here
    assert begun.value("select current_setting('gapless.finished', true)") != xid


@pytest.mark.parametrize(("upto", "passed"), [(5, {4}), (6, {4, 5}), (7, {4, 5, 6})])
def test_the_offset_moves_over_what_is_done(begun: Twins, upto: int, passed: set[int]) -> None:
    """What is before it needs no row any more, and the COMMIT is none of a handler."""
    changed = note(begun, "4", "4,5", upto=upto)
    assert changed.pop(OFFSETS) == {"next_offset": (4, upto)}
    assert set(changed) - {f"{AT} 5"} == {f"{AT} {first}" for first in passed - {5}}
    assert changed[f"{AT} 4"] | gone(4) == changed[f"{AT} 4"]
    assert 5 in passed or changed[f"{AT} 5"] == DONE
    begun.conn.execute("set constraints all immediate")


@pytest.mark.parametrize(
    ("upto", "done", "made"),
    [(4, "2,4", []), (4, "2,7,9", [7, 9]), (7, "2,4,7", [7]), (8, "7,9", [9]), (9, "7,9", [9])],
)
def test_what_was_parked_ahead_of_an_open_unit_is_done(
    begun: Twins, upto: int, done: str, made: list[int]
) -> None:
    """It was never begun, and has a row from now on; one that has a row keeps it."""
    begun.conn.execute(LETTERS, [[2, 4, 7, 8, 9]])
    changed = note(begun, done=done, upto=upto)
    new = {name: row for name, row in changed.items() if row.get("attempts") == (None, 0)}
    assert set(new) == {f"{AT} {first}" for first in made}
    for first in made:
        row = new[f"{AT} {first}"]
        assert (row["finished"], row["last_offset"]) == ((None, True), (None, first + 1))


@pytest.mark.parametrize(
    "where", ["group_id <> 'billing'", "topic_id <> {orders}", "partition_id <> 1"]
)
def test_what_was_parked_elsewhere_is_nothing_of_it(begun: Twins, where: str) -> None:
    begun.conn.execute(LETTERS, [[7]])
    here = where.format(**begun.topic_ids)
    begun.conn.execute(f"delete from gapless.dead_letter where not ({here})")
    assert note(begun, done="7") == {}


def test_units_that_begin(begun: Twins) -> None:
    """The first time, and once more."""
    changed = note(begun, begun="6,7,9", last="6,8,9")
    told = "select first_offset, attempts, crashes from told order by 1"
    assert begun.conn.execute(told).fetchall() == [(6, 6, 4), (7, 1, 1), (9, 1, 1)]
    assert changed.pop(f"{AT} 6") == {"attempts": (5, 6), "crashes": (3, 4)}
    new = {name: (row["last_offset"], row["finished"]) for name, row in changed.items()}
    assert new == {f"{AT} 7": ((None, 8), (None, False)), f"{AT} 9": ((None, 9), (None, False))}


@pytest.mark.parametrize(("upto", "layout"), [(4, 0), (5, 1), (7, 1), (8, 2)])
def test_the_layout_of_the_last_that_is_done_is_entered(
    begun: Twins, upto: int, layout: int
) -> None:
    begun.seek(1)
    begun.conn.execute("update gapless.log_segment set layout = base_offset / 3")
    statement = NOTE.replace(" 4, '{ended}'", " 1, '{ended}'")
    words = {"ended": "{}", "done": "{}", "begun": "{}", "last": "{}", "upto": upto}
    changed = begun.changes(statement.format(**begun.topic_ids, **words))
    moved = {"next_offset": (1, upto)}
    entered = {"layout": (0, layout), "passed": (0, layout)} if layout else {}
    assert changed[OFFSETS] == moved | entered


# What is so here, and nowhere else.
FENCED = {
    "a newer owner": "epoch = 6",
    "an older one": "epoch = 4",
    "another token": f"token = '{OTHER}'",
    "nobody owns it": "token = null",
    "it was moved": "next_offset = 5",
    "it was moved back": "next_offset = 3",
}


@pytest.mark.parametrize("name", FENCED)
def test_who_is_fenced_writes_nothing(begun: Twins, name: str) -> None:
    """A row of nulls says so."""
    begun.conn.execute("select set_config('gapless.seeking', pg_current_xact_id()::text, true)")
    begun.conn.execute(f"update gapless.consumer_offsets set {FENCED[name]} where {begun.here()}")
    assert note(begun, "4", "4", "7", "7", 6) == {}
    assert begun.conn.execute("select * from told").fetchall() == [(None, None, None)]


def test_what_did_not_end_is_taken_back_here_alone(begun: Twins) -> None:
    """By its owner; somebody else takes nothing back."""
    forget = f"select gapless.forget_deliveries('billing', {{orders}}, 1, {{}}, '{TOKEN}')"
    for epoch, back in ((4, {}), (5, {"crashes": (3, 2)})):
        changed = begun.changes(forget.format(epoch, **begun.topic_ids))
        assert changed == ({f"{AT} {first}": back for first in (4, 5, 6)} if back else {})
