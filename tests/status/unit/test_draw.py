"""What the console shows, from snapshots made by hand: every page, size, terminal and trouble."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from gapless.status import to_document
from gapless.status.draw import draw
from gapless.status.history import History
from gapless.status.layout import Section, lay_out, share, window
from gapless.status.snapshot import COUNT_MAX, Pending, Snapshot, Standing
from gapless.status.view import Canvas, ConsolePage, ConsoleState, LetterLine, Look
from gapless.status.words import ASCII, PLAIN, UNICODE
from support.every import every
from support.look import (
    MEMBERS,
    NOON,
    letter,
    look,
    once,
    pages,
    presence,
    printed,
    standing,
    with_server,
)

HOLE = "stopped: 2 of 100 events are missing from outbox_message_t, the first has id 4711"
EVIL = "\x1b]0;gotcha\x07\x1b[2J\u202eabc\nnext\r\ud800"
WIDE = "配送注文" * 9
GROUP = ("billing", "orders")


def _busy(partitions: int = 64, *, at_s: float = 0.0) -> Snapshot:
    """Return many partitions, every fourth with lag, one stopped, one moving, one unserved."""
    rows = [standing(n, "host-a" if n % 2 else "host-b", lag=n % 4) for n in range(partitions)]
    rows[3] = replace(rows[3], error=HOLE, error_ts=NOON - timedelta(minutes=2), dead_letters=2)
    rows[5] = replace(rows[5], target="host-b", target_id=MEMBERS["host-b"])
    rows[6] = standing(6, None, target=None)
    members = [presence("host-a", owned=31, wanted=30), presence("host-b", state="draining")]
    return look(rows, at_s=at_s, members=members, letters=[letter(3, "KeyError: 'tail'")])


def _laggard() -> Snapshot:
    """Return 144 partitions, the first 16 without an owner, one far behind."""
    rows = [standing(n, lag=50_000 if n == 97 else 0) for n in range(144)]
    rows[:16] = [standing(n, None, target=None) for n in range(16)]
    return look(rows, members=[presence("host-a")])


def _history(*shots: Snapshot) -> History:
    history = History()
    for shot in shots:
        history.add(shot)
    return history


def _at(*at: str | int, **fields: object) -> ConsoleState:
    """Return the state in which a page is open."""
    depths = {2: [2], 3: [2, 3], 4: [2, 3, 4]}.get(len(at), [])
    opened = tuple(ConsolePage(at=at[:depth]) for depth in depths)
    return ConsoleState(pages=(ConsolePage(), *opened), **fields)  # type: ignore[arg-type]


def _unit(offset: int, **fields: object) -> LetterLine:
    return LetterLine(
        **{
            "offset": offset, "events": 1, "state": "dead", "attempts": 3, "failed_ts": NOON,
            "key": "k-7", "error": "KeyError: 'total'", **fields,
        }
    )  # type: ignore[arg-type]  # fmt: skip


def _opened(shot: Snapshot | None = None, **fields: object) -> Look:
    """Return a look with what the pages of partition 3 show."""
    place = (*GROUP, 3)
    return Look(
        **{
            "snapshot": shot or _busy(),
            "letters_at": place,
            "letters": [_unit(17), _unit(20, state="waiting")],
            "text_at": (*place, 17),
            "text": "\n".join(f"line {n}" for n in range(100)),
            **fields,
        }  # type: ignore[arg-type]
    )


# -- the first page -------------------------------------------------------------------------------


def test_the_laggard_is_on_the_first_screen() -> None:
    """144 partitions on 80 by 24, 16 of them without an owner and without lag."""
    history = _history(_laggard(), with_server(_laggard(), taken_ts=NOON + timedelta(seconds=5)))
    lines = pages(_laggard(), height=24, history=history)
    heading = next(n for n, line in enumerate(lines) if line.startswith("group "))
    assert lines[heading + 1].split()[:3] == ["billing/orders", "50.0k", "83m"]
    first = next(n for n, line in enumerate(lines) if line.startswith("partition "))
    assert lines[first + 1].split()[:2] == ["billing/orders/97", "host-a"]
    assert lines[first + 2].split()[:2] == ["billing/orders/0", "nobody"]
    unserved = "billing/orders: nobody works on 16 of 144 partitions: start gapless run"
    assert any(line.startswith(unserved) for line in lines)


def test_errors_are_a_line_for_each_unit() -> None:
    """The stopped partitions of a group are one on the first page, each has its own on the group's."""
    since = [NOON - timedelta(minutes=n) for n in (9, 2)]
    rows = [
        standing(0, error="old", error_ts=since[0]),
        standing(1, error="new", error_ts=since[1]),
        standing(2, error="of no known time"),
        standing(0, group_id="search", error="alone", error_ts=since[1]),
    ]
    letters = [letter(3, "KeyError: 'total'", attempts=3), letter(4, "app.shop.BadError: no")]
    shot = look(rows, members=[presence("host-a")], letters=letters)
    assert _errors(pages(shot)) == [
        "2m ago  billing/orders  3 partitions: new",
        "2m ago  search/orders/0  alone",
        "2.0s ago  billing/orders/3@17  dead, 3 attempts: KeyError: 'total'",
        "2.0s ago  billing/orders/4@17  dead: BadError: no",
    ]
    assert _errors(pages(shot, _at(*GROUP)))[:3] == [
        "9m ago  billing/orders/0  old",
        "2m ago  billing/orders/1  new",
        "? ago  billing/orders/2  of no known time",
    ]


def _errors(lines: list[str]) -> list[str]:
    found = lines[lines.index("last errors") + 1 :]
    return [line.strip() for line in found if " ago  " in line]


def test_groups_are_sorted_by_what_matters() -> None:
    rows = [
        standing(0, None, group_id="unserved", target=None),
        standing(0, group_id="busy", lag=10),
        standing(0, group_id="calm"),
        standing(0, group_id="late", lag=500),
        standing(0, group_id="stuck", lag=1, error=HOLE),
    ]
    shot = look(rows, members=[presence("host-a")])
    heads = [line.split()[:2] for line in pages(shot, width=120)]
    groups = [words for words in heads if words and words[-1] != "nobody"]
    start = groups.index(["group", "lag"])
    names = [" ".join(words) for words in groups[start + 1 : start + 6]]
    assert names == ["! stuck/orders", "late/orders 500", "busy/orders 10",
                     "unserved/orders 0", "calm/orders 0"]  # fmt: skip


def test_rows_of_a_group_that_keeps_up_stand_still() -> None:
    """What is in hand for less than a second is not behind, however many events it is."""
    for busy in (0, 2):
        rows = [standing(n, lag=900 if n == busy else 0, lag_s=0.4) for n in range(4)]
        rows.append(standing(0, group_id="search", lag=900 * busy, lag_s=0.4))
        lines = pages(look(rows, members=[presence("host-a")]))
        names = [line.split()[0] for line in lines if "/orders" in line]
        assert names[:2] == ["billing/orders", "search/orders"]
        assert names[2:] == [*(f"billing/orders/{n}" for n in range(4)), "search/orders/0"]


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ({"lag": 100}, {"lag": 50}, "5.0s"),
        ({"lag": 50}, {"lag": 100}, "grows"),
        ({"lag": 50}, {"lag": 50}, "stands"),
        ({"lag": 3}, {"lag": 3}, "<1s"),
        ({"lag": 3}, {"lag": 0}, "·"),
        ({"lag": 50}, {"lag": 50, "error": HOLE}, "stopped"),
        ({"lag": 50}, {"lag": 50, "paused_ts": NOON}, "paused"),
    ],
)
def test_when_a_group_has_caught_up(
    first: dict[str, object], last: dict[str, object], said: str
) -> None:
    shots = [look([standing(0, **last)], at_s=5.0)]
    shots.insert(0, look([standing(0, **first)]))
    lines = pages(shots[1], height=24, history=_history(*shots))
    row = next(lines[n + 1] for n, line in enumerate(lines) if line.startswith("group "))
    assert said in row.removeprefix("! ").split()[4]


# -- sizes ----------------------------------------------------------------------------------------

SIZES = [(80, 24), (100, 30), (200, 50), (60, 20), (40, 20), (40, 10), (20, 6), (9, 3), (1, 1)]
STATES = [
    ConsoleState(),
    _at(*GROUP),
    _at(*GROUP, sort="rate"),
    _at(*GROUP, 3),
    _at(*GROUP, 3, 17),
    _at(*GROUP, 99),
    _at("gone", "orders"),
    ConsoleState(mode="help"),
    ConsoleState(mode="filter", pages=(ConsolePage(filter=WIDE),)),
    _at(*GROUP, 3, asked=(WIDE, "orders", 3, 17)),
    _at(*GROUP, said=EVIL),
    ConsoleState(stays=True, way_out="Ctrl-C drains, twice: now"),
]


@pytest.mark.parametrize("state", STATES)
def test_every_page_fits_every_terminal(state: ConsoleState) -> None:
    history = _history(*(_busy(at_s=second) for second in range(12)))
    history.note(_busy(), "a line of the log " * 30)
    text = f"{EVIL}\n{WIDE}\n" * 50
    shown = _opened(history=history, trouble="connection lost: " * 9, text=text,
                    letters=[_unit(n, key=WIDE, error=EVIL) for n in range(300)])  # fmt: skip

    def check(canvas: Canvas) -> None:
        lines = [line.plain for line in draw(shown, state, canvas)]
        assert len(lines) == canvas.height
        assert max(map(cell_len, lines)) <= canvas.width
        assert not set("".join(lines)) & set("\x1b\x07\r\n\u202e\ud800")

    every(
        check,
        (Canvas(width=w, height=h, glyphs=g) for w, h in SIZES for g in (UNICODE, ASCII)),
        repr,
    )


NASTY = "a/@ \x1b\n\u202e\u0301\u200d配😀\ud800"
names = st.text(NASTY, max_size=12)


@st.composite
def _any_row(make: st.DrawFn, partition_id: int) -> Standing:
    row = standing(partition_id, make(st.sampled_from(["host-a", "host-b", None])))
    return replace(
        row,
        group_id=make(names),
        topic=make(names),
        lag=make(st.integers(0, 10**12)),
        lag_s=make(st.none() | st.floats(0, 1e9)),
        error=make(st.none() | st.text(NASTY, max_size=40)),
        dead_letters=make(st.integers(0, COUNT_MAX)),
        epoch=make(st.integers(0, 10**9)),
    )


@pytest.mark.long
@given(st.data(), st.integers(1, 220), st.integers(1, 70))
def test_whatever_there_is_fits(data: st.DataObject, width: int, height: int) -> None:
    count = data.draw(st.integers(0, 6))
    shot = look([data.draw(_any_row(n)) for n in range(count)], members=[presence("host-a")])
    keys = [(), *(row.key[:2] for row in shot.partitions), *(row.key for row in shot.partitions)]
    state = _at(*data.draw(st.sampled_from(keys)))
    history = data.draw(st.sampled_from([None, _history(shot)]))
    lines = pages(shot, state, width=width, height=height, history=history)
    assert len(lines) == height
    assert max(map(cell_len, lines)) <= width


# -- the other pages ------------------------------------------------------------------------------


def test_a_partition_has_its_error_and_what_was_set_aside() -> None:
    lines = pages(_opened(), _at(*GROUP, 3), height=24)
    assert lines[0].startswith("gapless  billing/orders/3  database shop")
    assert HOLE in lines[3] + lines[4]
    head = next(n for n, line in enumerate(lines) if line.lstrip().startswith("offset "))
    assert lines[head + 1].split()[:3] == ["17", "dead", "0s"]
    assert "KeyError: 'total'" in lines[head + 1]
    assert lines[head + 2].split()[:2] == ["20", "waiting"]
    assert lines[-1].startswith("esc back  ? help  r redrive")


def test_the_chosen_row_is_seen_wherever_it_is() -> None:
    for chosen in (0, 50, 143):
        page = ConsolePage(at=GROUP, chosen=(*GROUP, chosen))
        state = ConsoleState(pages=(ConsolePage(), page), sort="name")
        lines = pages(_laggard(), state, height=24)
        assert any(line.startswith(f"{chosen} ") for line in lines), chosen


# -- terminals, hostile text, trouble -------------------------------------------------------------


def test_ascii_where_the_terminal_has_no_unicode() -> None:
    shots = [replace(_busy(8, at_s=second), place="café") for second in range(5)]
    lines = pages(shots[-1], width=120, history=_history(*shots), glyphs=ASCII)
    text = "\n".join(lines)
    assert text.isascii()
    assert "caf?" in text
    assert "host-a -> host-b" in text
    assert "____" in text, "the course of the rate"


def test_no_colour_says_as_much() -> None:
    lines = draw(Look(snapshot=_busy(8)), ConsoleState(), Canvas(width=100))
    shown = printed(lines, no_color=True, color_system="256")
    assert "\x1b[3" not in shown, "a colour"
    assert ";3" not in shown
    assert all(word in shown for word in ("! billing/orders/3", "nobody", "draining", "31 of 30"))


def test_nothing_drives_the_terminal() -> None:
    rows = [standing(0, error=EVIL, owner="host-a")]
    rows[0] = replace(rows[0], owner=EVIL, group_id=EVIL, pause=EVIL, paused_ts=NOON)
    shot = look(
        rows,
        members=[replace(presence("host-a"), name=EVIL, revoked_role=EVIL)],
        letters=[letter(0, EVIL)],
    )
    place = (EVIL, "orders", 0)
    shown = Look(snapshot=shot, letters_at=place, text_at=(*place, 17), text=EVIL,
                 letters=[_unit(17, key=EVIL, error=EVIL)], trouble=EVIL)  # fmt: skip
    states = [ConsoleState(), _at(EVIL, "orders"), _at(*place), _at(*place, 17),
              _at(*place, said=EVIL), _at(*place, asked=(*place, 17))]  # fmt: skip
    texts = ["".join(pages(shown, state, width=100, height=40)) for state in states]
    for text in (
        *texts,
        "".join(once(shot)),
        "".join(once(shot, width=90)),
    ):
        assert not set(text) & set("\x1b\x07\r\n\u202e\ud800")
        assert "gotcha" in text


@pytest.mark.parametrize(
    ("shot", "said"),
    [
        (
            replace(
                look(sequencer_pid=None), pending=(Pending(topic="t", events=3, oldest_s=9.0),)
            ),
            "3 events wait without an offset, for 9 s, and no supervisor gives any: start gapless run",
        ),
        (
            with_server(look(), oldest_transaction_s=7200.0, oldest_transaction="psql"),
            "psql: transaction open, holds back vacuum, for 2.0h: end its session",
        ),
        (look(), "no supervisor is running: start gapless run"),
        (look(), "no group consumes anything yet"),
        (
            look([standing(0, None, target=None)], members=[presence("host-c")]),
            "billing/orders: nobody works on it: start gapless run",
        ),
        (look(members=[presence("host-a", is_present=False)]), "host-a gone"),
        (look(members=[presence("host-a", beat_s=99.0)]), "host-a silent"),
        (look(members=[presence("host-a", revoked_role="app")]), 'grant gapless_consumer to "app"'),
        (look([standing(0, is_held=False)]), "host-a (no session)"),
        (look([replace(standing(0), owner=None)]), "evicted"),
        (look([standing(0, lag=3, lag_s=None)]), "?"),
        (look([standing(0, dead_letters=COUNT_MAX)]), "10k+"),
        (
            look([standing(0, None, target=None, group_id=f"g{n}", lag=9) for n in range(6)]),
            "6 groups: nobody works on 6 of 6 partitions, 54 behind, for ",
        ),
        (
            look([standing(0, paused_ts=NOON, pause="ann: bad deploy")]),
            "billing/orders: 1 partition paused by ann: bad deploy, for 0s: gapless resume billing ends it",
        ),
        (
            look([standing(0, waiting=1)]),
            "billing/orders: 1 unit waits for another attempt: gapless dlq list --group billing",
        ),
        (look([standing(0, parked=2)]), "2 units parked behind one of their key"),
    ],
)
def test_trouble_is_said_in_words(shot: Snapshot, said: str) -> None:
    assert said in " ".join(" ".join(pages(shot, width=120)).split())


# -- text and document ----------------------------------------------------------------------------


def test_one_look_in_a_pipe_cuts_nothing_and_leaves_no_row_out() -> None:
    """All partitions, those that stand still or are behind first; each problem with its remedy."""
    group = "g" * 200
    rows = [standing(n, group_id=group, lag=n) for n in range(300)]
    rows[7] = replace(rows[7], error=HOLE, error_ts=NOON)
    rows[9] = replace(rows[9], dead_letters=1, lag=0)
    rows += [standing(n, group_id=f"g{n}", paused_ts=NOON, pause="ann: " + "why " * 50)
             for n in range(9)]  # fmt: skip
    lines = once(look(rows, members=[presence("host-a")]))
    shown = [int(line.split("host-a")[0].rpartition("/")[2]) for line in lines
             if line.removeprefix("! ").startswith(f"{group}/orders/") and "host-a" in line]  # fmt: skip
    assert shown[:2] == [7, 299]
    assert sorted(shown) == [*range(300)]
    assert sum(line.endswith(f"  {HOLE}") for line in lines) == 1
    assert sum(" paused by ann: " + "why " * 50 in line for line in lines) == 9
    assert len(pages(look(rows), width=10_000, height=24)) == 24


def test_a_client_is_told_from_a_supervisor() -> None:
    shot = look(members=[presence("host-a"), presence("host-b", kind="client")])
    assert [each["kind"] for each in to_document(shot)["members"]] == ["supervisor", "client"]
    lines = pages(shot, width=80)
    assert [line.split()[:3] for line in lines if "host-" in line] == [
        ["host-a", "active", "supervisor"], ["host-b", "active", "client"]
    ]  # fmt: skip
    alone = pages(look(members=[presence("host-a")]), width=80)
    assert not [line for line in alone if "kind" in line], "only where somebody is a client"


def test_one_look_on_a_terminal_is_what_the_console_shows() -> None:
    lines = once(_laggard(), width=80, height=24)
    live = pages(_laggard(), width=80, height=25, glyphs=PLAIN)
    assert lines[1:] == [line.rstrip() for line in live][1:24]
    assert "billing/orders/97" in "".join(lines), "the laggard"
    assert len(once(look(), width=80, height=24)) < 8, "no blank lines below, no keys"
    assert once(_laggard(), width=150)[1:] == once(_laggard())[1:], "a pipe prints the same"


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
            "members": 2,
            "unserved": 1,
            "stopped": 1,
            "paused": 0,
            "lag": shot.totals.lag,
            "lag_s": shot.totals.lag_s,
            "dead_letters": 2,
            "dead_events": 0,
            "waiting": 0,
            "parked": 0,
            "handled_per_s": None,
            "lag_per_s": None,
            "catch_up_s": None,
            "workers": 0,
            "open": 0,
            "in_hand": 0,
            "in_work": 0,
            "lapsed": 0,
            "finished_ahead": 0,
        }
    ]
    assert document["members"][1]["state"] == "draining"
    assert document["taken_at"] == "2026-03-01T12:00:00.000Z"


def test_the_document_of_several_looks_has_rates_and_when_a_group_has_caught_up() -> None:
    shots = [look([standing(0, lag=lag, next_offset=200 - lag)], at_s=at_s)
             for at_s, lag in ((0, 100), (5, 50))]  # fmt: skip
    document = to_document(shots[1], _history(*shots))
    group = document["groups"][0]
    assert (group["handled_per_s"], group["lag_per_s"], group["catch_up_s"]) == (10.0, -10.0, 5.0)
    assert document["partitions"][0]["handled_per_s"] == 10.0
    assert document["totals"]["handled_per_s"] == 10.0
    assert to_document(shots[1])["totals"]["handled_per_s"] is None


def test_pending_is_unknown_before_a_rebase() -> None:
    shot = look()
    shot = replace(shot, sequencer=replace(shot.sequencer, needs_rebase=True))
    assert to_document(shot)["totals"]["pending"] is None
    assert "? pending" in "\n".join(pages(shot, width=120))


# -- layout ---------------------------------------------------------------------------------------


@given(st.integers(-5, 60), st.lists(st.tuples(st.integers(1, 300), st.integers(1, 9)), max_size=6))
def test_lines_are_shared_out(room: int, wishes: list[tuple[int, int]]) -> None:
    def lines(height: int) -> list[Text]:
        return [Text("x")] * height

    sections = [Section(wanted=wanted, least=least, draw=lines) for wanted, least in wishes]
    got = share(room, sections)
    assert sum(got) <= max(0, room)
    for n, (height, each) in enumerate(zip(got, sections, strict=True)):
        assert height <= each.wanted
        # A part of a section is better than nothing at all, and worse than leaving it out.
        assert height == 0 or height >= min(each.least, each.wanted) or (n, sum(got)) == (0, room)
    if sum(each.wanted for each in sections) <= room:
        assert got == [each.wanted for each in sections]
    assert len(lay_out(sections, max(0, room))) <= max(0, room)


@given(st.integers(0, 500), st.data(), st.integers(1, 60))
def test_a_window_has_the_chosen_row(count: int, data: st.DataObject, room: int) -> None:
    chosen = data.draw(st.integers(0, max(0, count - 1)))
    seen = window(count, chosen, room)
    assert not count or chosen in seen
    assert len(seen) + (len(seen) < count) <= max(room, 2)
