"""What the console shows, from snapshots made by hand: every size, terminal and trouble."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, timedelta
from itertools import product
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gapless.status import History, export_svg, render, to_document, to_text
from gapless.status.render import Screen
from gapless.status.snapshot import COUNT_MAX, Pending, Snapshot
from gapless.status.view import Shares, View, share
from support.look import MEMBERS, NOON, drawn, letter, look, presence, standing, with_server

HOLE = "stopped: 2 of 100 events are missing from outbox_message_t, the first has id 4711"


def _busy(partitions: int = 64, *, at_s: float = 0.0) -> Snapshot:
    """Return many partitions, every fourth with lag, one stopped, one moving, one unserved."""
    rows = [standing(n, "host-a" if n % 2 else "host-b", lag=n % 4) for n in range(partitions)]
    rows[3] = replace(rows[3], error=HOLE, error_ts=NOON - timedelta(minutes=2), dead_letters=2)
    rows[5] = replace(rows[5], target="host-b", target_id=MEMBERS["host-b"])
    rows[6] = standing(6, None, target=None)
    members = [presence("host-a", owned=31, wanted=30), presence("host-b", state="draining")]
    return look(rows, at_s=at_s, members=members, letters=[letter(3, "KeyError: 'tail'")])


def _screen(snapshot: Snapshot, height: int | None = None, **fields: object) -> Screen:
    history = fields.pop("history", None) or History()
    return Screen(
        snapshot=snapshot,
        history=history,
        height=height,
        time_zone=UTC,
        **fields,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (200, 50), (60, 20), (40, 10)])
def test_it_fits_the_terminal(width: int, height: int) -> None:
    history = History()
    for second in range(30):
        history.add(_busy(at_s=second))
    history.note(_busy(), "a line of the log " * 30)
    lines = drawn(_screen(_busy(), height, history=history, footer="q quit"), width)
    assert max(map(cell_len, lines)) <= width
    assert len(lines) <= height
    assert lines[-1].startswith("q quit"), "the keys are on the last line"


def test_eighty_columns_have_all_that_counts() -> None:
    history = History()
    for second in range(10):
        rows = [standing(0, next_offset=1 + 120 * second, lag=300)]
        history.add(look(rows, at_s=second, members=[presence("host-a")]))
    shot = look(
        rows, at_s=9, members=[presence("host-a")], letters=[letter(0, "a.b.KeyError: 'x'")]
    )
    lines = drawn(_screen(shot, 24, history=history), 80)
    assert lines[0].startswith("gapless  shop on db1:5432  PostgreSQL 15.8")
    assert lines[0].endswith("12:00:09")
    assert lines[1] == "sequencer asleep   lag 300 (30s)   published 120/s   dead 0   pending 0"
    head, row = next(
        (line, lines[n + 1]) for n, line in enumerate(lines) if line.startswith("partition ")
    )
    assert head.split() == ["partition", "owner", "epoch", "lag", "behind", "ev/s", "dead"]
    assert row.split() == ["billing/orders/0", "host-a", "1", "300", "30s", "120", "█" * 9, "0"]
    assert "billing/orders/0@17  dead: KeyError: 'x'" in "\n".join(lines)


def test_a_wide_screen_has_offsets_and_both_names_of_a_hand_over() -> None:
    moving = standing(0, "host-a", target="host-b", next_offset=5000, lag=2)
    wide = "\n".join(drawn(_screen(look([moving])), 200))
    assert "host-a → host-b" in wide
    assert " 5000    5002 " in wide
    narrow = "\n".join(drawn(_screen(look([moving])), 80))
    assert " → host-b " in narrow
    assert "5000" not in narrow


def test_a_fold_keeps_the_laggiest_and_says_what_it_hides() -> None:
    rows = [standing(n, lag=1000 if n == 40 else 0) for n in range(64)]
    lines = drawn(_screen(look(rows, members=[presence("host-a")]), 24), 80)
    first = next(n for n, line in enumerate(lines) if line.startswith("partition ")) + 1
    assert lines[first].startswith("billing/orders/40 ")
    shown = sum(line.startswith("billing/orders/") for line in lines)
    assert f"… {64 - shown} more, all at lag 0" in lines


def test_a_fold_never_hides_trouble() -> None:
    rows = [standing(n, lag=1000) for n in range(64)]
    rows[50] = standing(50, error=HOLE)
    rows[51] = standing(51, None, target=None)
    lines = drawn(_screen(look(rows, members=[presence("host-a")]), 24), 80)
    first = next(n for n, line in enumerate(lines) if line.startswith("partition ")) + 1
    assert lines[first].startswith("! billing/orders/50 ")
    assert lines[first + 1].split()[:2] == ["billing/orders/51", "nobody"]
    assert "1 of 64 partitions has nobody to work on it" in lines


def test_pages_show_every_partition_once() -> None:
    shot = _busy()
    seen: list[str] = []
    view = View(sort="partition")
    for _ in range(20):
        lines = drawn(_screen(shot, 24, view=view), 80)
        page = [line.removeprefix("! ").split()[0] for line in lines if "billing/orders/" in line]
        seen += [name for name in page if name not in seen]
        view = view.press(" ", shot.groups)
    assert {f"billing/orders/{n}" for n in range(64)} <= set(seen)


def test_keys_sort_and_filter() -> None:
    rows = [standing(0), standing(1, lag=5), standing(2, group_id="search", lag=9)]
    shot, view = look(rows), View()
    assert _order(shot, view) == ["billing/orders/0", "billing/orders/1", "search/orders/2"]
    assert _order(shot, view.press("l", shot.groups))[0] == "search/orders/2"
    view = view.press("f", shot.groups)
    assert view.group_id == "billing"
    view = view.press("f", shot.groups)
    assert _order(shot, view) == ["search/orders/2"]
    assert view.press("f", shot.groups).group_id is None
    assert view.press("x", shot.groups) == view
    history = History()
    history.add(look([standing(0, next_offset=1), standing(1, next_offset=1)], at_s=0))
    shot = look([standing(0, next_offset=2), standing(1, next_offset=50)], at_s=1)
    history.add(shot)
    assert _order(shot, View(sort="rate"), history)[0] == "billing/orders/1"


def _order(shot: Snapshot, view: View, history: History | None = None) -> list[str]:
    lines = drawn(_screen(shot, view=view, history=history), 80)
    return [line.split()[0] for line in lines if "/orders/" in line]


def test_ascii_where_the_terminal_has_no_unicode() -> None:
    shot = replace(_busy(), place="café")
    history = History()
    for second in range(5):
        history.add(replace(_busy(at_s=second), place="café"))
    lines = drawn(_screen(shot, history=history), 120, encoding="ascii")
    text = "\n".join(lines)
    assert "caf?" in text
    assert "host-a -> host-b" in text
    assert "____ " in text, "the course of the rate"


def test_no_colour_says_as_much() -> None:
    lines = drawn(_screen(_busy(8)), 100, force_terminal=True, no_color=True, color_system="256")
    assert not any("\x1b[3" in line or ";3" in line for line in lines), "a colour"
    text = "\n".join(lines)
    assert all(word in text for word in ("! billing/orders/3", "nobody", "draining", "31 of 30"))


def test_nothing_drives_the_terminal() -> None:
    evil = "\x1b]0;gotcha\x07\x1b[2J\u202eabc\nnext\r\ud800"
    rows = [standing(0, error=evil, owner="host-a")]
    rows[0] = replace(rows[0], owner=evil)
    shot = look(
        rows,
        members=[replace(presence("host-a"), name=evil, revoked_role=evil)],
        letters=[letter(0, evil)],
    )
    for text in ("\n".join(drawn(_screen(shot), 100)), to_text(shot), to_text(shot, width=90)):
        assert not set(text) & set("\x1b\x07\r\u202e\ud800")
        assert "gotcha" in text


@pytest.mark.parametrize(
    ("shot", "said"),
    [
        (look(sequencer_pid=None), "no sequencer: events get no offsets"),
        (
            with_server(look(), oldest_transaction_s=7200.0, oldest_transaction="psql"),
            "psql: transaction open for 2.0h, holds back vacuum",
        ),
        (look(), "nobody is running: start gapless run"),
        (look(), "no group consumes anything yet"),
        (look([standing(0, None, target=None)], members=[presence("host-c")]), "nobody to work on"),
        (look(members=[presence("host-a", is_present=False)]), "host-a gone"),
        (look(members=[presence("host-a", beat_s=99.0)]), "host-a silent"),
        (look(members=[presence("host-a", revoked_role="app")]), 'grant gapless_consumer to "app"'),
        (look([standing(0, is_held=False)]), "host-a (no session)"),
        (look([replace(standing(0), owner=None)]), "evicted"),
        (look([standing(0, lag=3, lag_s=None)]), "?"),
        (look([standing(0, dead_letters=COUNT_MAX)]), "10k+"),
        (
            look([standing(0, None, target=None)], members=[presence("host-c")]),
            "1 of 1 partition has nobody to work on it",
        ),
        (look([standing(0, paused_ts=NOON)]), "paused: 1 partition of billing; gapless resume"),
        (look([standing(0, waiting=1)]), "set aside: 1 event waits for another attempt"),
    ],
)
def test_trouble_is_said_in_words(shot: Snapshot, said: str) -> None:
    assert said in " ".join(" ".join(drawn(_screen(shot), 120)).split())


def test_a_lost_connection_is_said_and_the_last_look_stays() -> None:
    lines = drawn(_screen(_busy(), 24, trouble="connection lost, retrying (3s): gone"), 80)
    assert lines[2] == "connection lost, retrying (3s): gone"
    assert any("billing/orders/3" in line for line in lines)


def test_one_look_has_no_rates() -> None:
    text = "\n".join(drawn(render(_busy(8)), 100))
    assert "ev/s" not in text
    assert "published" not in text
    assert "ev/s" in "\n".join(drawn(_screen(_busy(8)), 100))


def test_text_in_a_pipe_cuts_nothing() -> None:
    rows = [standing(n, group_id="g" * 200) for n in range(100)]
    rows[7] = replace(rows[7], error=HOLE, lag=5)
    lines = to_text(look(rows, members=[presence("host-a")])).splitlines()
    table = [line.split(maxsplit=11) for line in lines if line.startswith(("GROUP", "ggg"))]
    assert len(table) == 101
    row = dict(zip(table[0], table[8], strict=True))
    assert row["GROUP"] == "g" * 200
    assert (row["PARTITION"], row["LAG"], row["ERROR"]) == ("7", "5", HOLE)
    assert dict(zip(table[0], table[9], strict=True))["ERROR"] == "-"


def test_text_on_a_terminal_fits() -> None:
    lines = to_text(_busy(), width=72).splitlines()
    assert max(map(len, lines)) <= 72
    assert sum("billing/orders/" in line for line in lines) >= 64, "all rows: a terminal scrolls"


def test_the_document_is_json_and_speaks_kafka() -> None:
    shot = replace(_busy(), pending=(Pending(topic="orders", events=3, oldest_s=0.1),))
    document = json.loads(json.dumps(to_document(shot)))
    row = document["partitions"][2]
    assert row["log_end_offset"] - row["current_offset"] == row["lag"] == 2
    assert (row["group"], row["topic"], row["partition"]) == ("billing", "orders", 2)
    assert document["totals"]["lag"] == sum(row["lag"] for row in document["partitions"])
    assert document["totals"]["pending"] == document["topics"][0]["pending"] == 3
    assert document["groups"] == [
        {
            "group": "billing",
            "topic": "orders",
            "mode": "ordered",
            "partitions": 64,
            "lag": shot.lag,
            "lag_s": shot.lag_s,
            "dead_letters": 2,
            "workers": 0,
            "open": 0,
            "in_hand": 0,
            "lapsed": 0,
            "waiting": 0,
        }
    ]
    assert document["members"][1]["state"] == "draining"
    assert document["taken_at"] == "2026-03-01T12:00:00.000Z"


def test_the_document_knows_a_topic_that_nobody_created() -> None:
    shot = replace(look(), pending=(Pending(topic="(no topic)", events=1, oldest_s=0.0),))
    assert to_document(shot)["topics"][-1] == {
        "topic": "(no topic)", "events": 0,
        "partition_count": 0, "pending": 1, "partitions": []
    }  # fmt: skip


def test_pending_is_unknown_before_a_rebase() -> None:
    shot = look()
    shot = replace(shot, sequencer=replace(shot.sequencer, needs_rebase=True))
    assert to_document(shot)["totals"]["pending"] is None
    assert "pending ?" in "\n".join(drawn(_screen(shot), 120))


def test_the_picture_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "console.svg"
    export_svg(_busy(8), path, width=90, height=30)
    text = path.read_text()
    ET.fromstring(text)
    assert "url(http" not in text.replace('"', "")
    assert "@font-face" not in text
    again = tmp_path / "again.svg"
    export_svg(_busy(8), again, width=90, height=30)
    assert again.read_text() == text, "the same look is the same picture"


@given(
    st.integers(1, 60),
    st.integers(0, 300),
    st.integers(0, 4096),
    st.integers(0, 20),
    st.integers(0, 100),
)
def test_lines_are_shared_out(
    height: int, members: int, partitions: int, errors: int, news: int
) -> None:
    wanted = Shares(members=members, partitions=partitions, errors=errors, news=news)
    got = share(height, wanted)
    for name, least in product(("members", "partitions", "errors", "news"), [0]):
        assert least <= getattr(got, name) <= getattr(wanted, name)
    total = got.members + got.partitions + got.errors + got.news
    if height >= 8:
        assert total <= height
        assert total == min(height, members + partitions + errors + news)
        assert got.partitions >= min(partitions, height // 4)
