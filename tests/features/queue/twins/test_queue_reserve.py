"""reserve(): of which partition, what comes first, for how long, and what stands before a hole."""

from typing import Any

import pytest

from support.twin_queues import DONE, DUE, HERE, letter, letters, lose, note, noted, put
from support.twins import Twins

RESERVE = "select * from gapless.reserve('sender', %s, %s, %s, '1 h', 'me', %s, %s)"
Given = list[tuple[Any, ...]]


def seed(twins: Twins, low: float, high: float) -> None:
    """Let the next random() of the session be in between."""
    for n in range(1000):
        twins.conn.execute("select setseed(%s)", [n / 1000])
        if low <= twins.value("select random()") < high:
            twins.conn.execute("select setseed(%s)", [n / 1000])
            return
    raise AssertionError


def reserve(
    twins: Twins, partition: int | None = 1, most: int = 4, what: str = "any", crashes_max: int | None = None
) -> Given:  # fmt: skip
    params = [twins.topic_ids["orders"], partition, most, what, crashes_max]
    return twins.conn.execute(RESERVE, params).fetchall()


@pytest.mark.parametrize(
    ("what", "low", "high", "kinds"),
    [
        ("any", 0.07, 1.0, ["R4", "R5", "L", "R3", ""]), ("any", 0.0, 0.0625, ["L", "R3", "R4", "R5", ""]),
        ("aside", 0.07, 1.0, ["L", "R3", "", "", ""]), ("aside", 0.0, 0.0625, ["L", "R3", "", "", ""]),
    ],
)  # fmt: skip
def test_what_comes_first(
    twins: Twins, what: str, low: float, high: float, kinds: list[str]
) -> None:
    """What is open, mostly; what was given out before, now and then, and when nothing else is left."""
    note(twins, HERE, [(1, 2, DONE), (3, 3, DUE)], tries=1)
    letter(twins, HERE, 1)
    found = []
    for _ in kinds:
        seed(twins, low, high)
        rows = reserve(twins, what=what)
        found.append(
            rows[0][0][0] + (str(rows[0][2]) if rows[0][0][0] == "R" else "") if rows else ""
        )
    assert found == kinds


def test_the_laggiest_partition_comes_first(twins: Twins) -> None:
    """Without a partition, any; one that rests gives nothing, be it open or due."""
    seed(twins, 0.07, 1.0)
    assert reserve(twins, None)[0][1:3] == (0, 1)
    assert reserve(twins, None)[0][1:3] == (1, 1)
    assert reserve(twins, 2)[0][1:3] == (2, 1)
    note(twins, HERE, [(5, 5, DUE)])
    letter(twins, HERE, 8)
    letter(twins, ("sender", "orders", 2), 8)
    twins.conn.execute("select gapless.pause('sender', 'orders', 1)")
    assert reserve(twins) == reserve(twins, what="aside") == []
    assert reserve(twins, None, what="aside")[0][1:3] == (2, 8)
    row = twins.value(
        "select count(*) from gapless.reserve('auditor', %s, 1, 4, '1 h', 'me')",
        twins.topic_ids["orders"],
    )
    assert row == 4


def test_how_long_it_is_kept(twins: Twins) -> None:
    (row,) = reserve(twins, most=1)
    seconds = "select extract(epoch from %s::timestamptz - clock_timestamp()) between 3590 and 3600"
    assert twins.value(seconds, row[8]) is True
    until = "select deadline from gapless.queue_range where first_offset = 1"
    assert twins.value(until) == row[8]
    for wrong in ("0 s", "-1 s", "367 days", "null"):
        state, text = twins.refused(
            RESERVE.replace("'1 h'", f"'{wrong}'::interval" if wrong != "null" else "null"),
            [twins.topic_ids["orders"], 1, 1, "any", None],
        )
        assert (state, text[:35]) == ("GL400", "visibility is a time above 0 s, at most"[:35])


@pytest.mark.parametrize("crashes_max", [None, 3])
def test_before_a_hole_the_others_are_served(twins: Twins, crashes_max: int | None) -> None:
    """When they have nothing, a worker is told by an error, and anybody else by a notice."""
    said: list[str] = []
    twins.conn.add_notice_handler(
        handler := lambda notice: said.append(notice.message_primary or "")
    )
    lose(twins, segments={1})
    note(twins, ("sender", "orders", 0), [(1, 8, DONE)])
    text = (
        "sender/orders/1: events are missing in the log at offset 1:"
        " gapless skip sender/orders/1@1 continues without them"
    )
    seed(twins, 0.07, 1.0)
    try:
        assert reserve(twins, None, crashes_max=crashes_max)[0][1:3] == (2, 1)
        assert reserve(twins, None, crashes_max=crashes_max)[0][1:3] == (2, 5)
        assert reserve(twins, None, crashes_max=crashes_max)[0][1:3] == (0, 9)
        assert not noted(twins)
        params = [twins.topic_ids["orders"], None, 4, "any", crashes_max]
        assert not said
        if crashes_max is None:
            assert twins.refused(RESERVE, params) == ("GL410", text)
            assert not said
        else:
            assert twins.conn.execute(RESERVE, params).fetchall() == []
            assert said == [text]
        put(twins, HERE, 4)
        assert reserve(twins, crashes_max=crashes_max)[0][2] == 4
    finally:
        twins.conn.remove_notice_handler(handler)


def test_letters_come_before_ranges(twins: Twins) -> None:
    note(twins, HERE, [(1, 2, DUE)], holder="ann", tries=3)
    letter(twins, HERE, 5)
    assert [row[0][0] for row in reserve(twins, what="aside")] == ["L"]
    (row,) = reserve(twins, what="aside", crashes_max=4)
    assert (row[0][0], row[2]) == ("R", 1)
    note(twins, HERE, [(3, 3, DUE)], holder="ann", tries=4)
    twins.conn.execute(
        "delete from gapless.queue_range where first_offset = 2 and deadline < now()"
    )
    assert reserve(twins, what="aside", crashes_max=4) == []
    assert letters(twins, HERE, "first_offset, worker") == [(3, "ann"), (5, "me")]
