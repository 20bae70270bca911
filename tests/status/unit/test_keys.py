"""What keys make of the console's state, by histories of keys; and how a terminal sends keys."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.status.draw import draw
from gapless.status.history import History
from gapless.status.keys import FILTER_CHARACTERS_MAX, HELP, press, told
from gapless.status.snapshot import Snapshot
from gapless.status.terminal import key_names
from gapless.status.view import Canvas, ConsoleState, LetterLine, Look, row_names
from support.look import NOON, look, presence, standing

CANVAS = Canvas(width=80, height=24)
PLACE = ("billing", "orders", 1)
KEYS = [
    *("up", "down", "left", "right", "home", "end", "pageup", "pagedown"),
    *("enter", "escape", "backspace", "end-of-file", *"jkgGbhqs/?ryn x"),
]


def _shot(*, lag: int = 50) -> Snapshot:
    rows = [standing(n, lag=lag if n == 1 else 0) for n in range(4)]
    rows += [standing(n, group_id="search", lag=100 * n) for n in range(30)]
    return look(rows, members=[presence("host-a")])


def _look(shot: Snapshot | None = None, *, text: str = "line\n" * 100) -> Look:
    letters = [
        LetterLine(offset=offset, events=1, state=state, attempts=1, failed_ts=NOON, key="k",
                   error="no total")
        for offset, state in ((40, "dead"), (17, "waiting"), (3, "parked"))
    ]  # fmt: skip
    return Look(
        snapshot=shot or _shot(),
        history=History(),
        letters_at=PLACE,
        letters=letters,
        text_at=(*PLACE, 40),
        text=text,
    )


def _after(
    *keys: str, state: ConsoleState | None = None, shown: Look | None = None
) -> ConsoleState:
    state = state or ConsoleState()
    for key in keys:
        state = press(state, key, shown or _look(), CANVAS)
    return state


def test_enter_opens_what_is_chosen_and_escape_comes_back() -> None:
    """The most behind is chosen at first: search; its most behind is partition 29."""
    state = _after("enter")
    assert state.page.at == ("search", "orders")
    state = _after("enter", state=state)
    assert state.page.at == ("search", "orders", 29)
    assert _after("escape", "escape", state=state).page.at == ()
    assert _after("escape", "escape", "escape", state=state).page.at == ()


def test_all_the_way_down_to_a_unit() -> None:
    state = _after("down", "enter", "enter")
    assert state.page.at == PLACE
    state = _after("j", "enter", state=state)
    assert state.page.at == (*PLACE, 17)
    assert _after("enter", state=state) == state, "there is nothing below"
    assert _after("escape", state=state).page.chosen == (*PLACE, 17)


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (("j",), 28), (("down", "down"), 27), (("j", "k"), 29), (("k",), 29), (("G",), 0),
        (("end", "g"), 29), ((" ",), 13), (("pagedown", "pageup"), 29), (("G", "j"), 0),
        (("end", "b"), 16),
    ],
)  # fmt: skip
def test_moving(keys: tuple[str, ...], chosen: int) -> None:
    """29 is the most behind, 0 the least; a page is 16 rows."""
    assert _after("enter", *keys).page.chosen == ("search", "orders", chosen)


def test_the_choice_stays_with_its_row_wherever_that_moves() -> None:
    state = _after("down")
    assert state.page.chosen == ("billing", "orders")
    late = _look(_shot(lag=10**6))
    assert row_names(late, state)[0] == ("billing", "orders"), "it is the first one now"
    assert _after("enter", state=state, shown=late).page.at == ("billing", "orders")
    gone = _look(look([standing(0, group_id="search")]))
    assert _after("enter", state=state, shown=gone).page.at == ("search", "orders")


def test_sorting() -> None:
    def order(*keys: str) -> list[object]:
        return [name[-1] for name in row_names(_look(), _after("enter", *keys))]

    assert order()[:3] == [29, 28, 27]
    assert order("s")[:3] == [0, 1, 2]
    assert _after("s", "s").sort == "rate"
    assert _after("s", "s", "s").sort == "lag"


def test_a_filter_works_while_it_is_typed() -> None:
    state = _after(*"/Bill")
    assert (state.mode, state.page.filter) == ("filter", "Bill")
    assert row_names(_look(), state) == [("billing", "orders")]
    assert _after("backspace", state=state).page.filter == "Bil"
    assert _after("j", "q", "?", state=state).page.filter == "Billjq?", "no key means anything else"
    kept = _after("enter", state=state)
    assert (kept.mode, kept.page.filter) == ("look", "Bill")
    assert _after("enter", state=kept).page.at == ("billing", "orders")
    assert _after("enter", "escape", state=kept).page.filter == "Bill", "it is that page's"
    assert _after("escape", state=kept).page.filter == ""
    below = _after("escape", "enter", "/", "1", "enter", state=kept)
    assert _after("escape", state=below).page == replace(below.page, filter="")
    assert _after("escape", "escape", state=below).page.at == ()
    dropped = _after("escape", state=state)
    assert (dropped.mode, dropped.page.filter) == ("look", "")
    assert len(_after("/", *"x" * 500).page.filter) == FILTER_CHARACTERS_MAX


def test_a_filter_finds_owners_states_and_errors() -> None:
    rows = [standing(0), standing(1, "host-b"), standing(2, error="KeyError: total")]
    shown = Look(snapshot=look(rows))
    for typed, found in (("host-b", [1]), ("TOTAL", [2]), ("working", [0, 1, 2]), ("zzz", [])):
        state = _after("enter", "/", *typed, shown=shown)
        assert sorted(name[-1] for name in row_names(shown, state)) == found
    assert _after("enter", "/", *"zzz", "enter", "j", "enter", shown=shown).page.at == (
        "billing", "orders"
    )  # fmt: skip


def test_q_goes_back_and_ends_on_the_first_page() -> None:
    assert _after("q").has_quit
    state = _after("enter", "q")
    assert not state.has_quit
    assert state.page.at == ()
    assert _after("enter", "end-of-file").has_quit, "Ctrl-C and Ctrl-D end it anywhere"


def test_beside_a_supervisor_nothing_ends_it() -> None:
    state = _after("q", "end-of-file", "q", state=ConsoleState(stays=True))
    assert not state.has_quit


# -- redrive --------------------------------------------------------------------------------------


def _partition() -> ConsoleState:
    return _after("down", "enter", "enter")


def test_redrive_asks_first_and_only_y_is_a_yes() -> None:
    state = _after("r", state=_partition())
    assert (state.asked, state.wish) == ((*PLACE, 40), None)
    wished = _after("y", state=state)
    assert (wished.asked, wished.wish) == (None, (*PLACE, 40))
    for key in ("n", "enter", "escape", "r", " ", "q", "up"):
        left = _after(key, state=state)
        assert (left.asked, left.wish, left.has_quit) == (None, None, False)
        assert left.said == "left as it is"


def test_a_unit_that_is_shown_can_be_redriven() -> None:
    state = _after("enter", "r", "y", state=_partition())
    assert state.wish == (*PLACE, 40)
    done = told(state, "asked")
    assert (done.wish, done.said) == (None, "asked")
    assert _after("j", state=done).said is None


# -- any history ----------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(KEYS), max_size=60), st.integers(1, 120), st.integers(1, 50))
def test_any_history_of_keys_can_be_drawn_and_redrives_only_after_r_and_y(
    keys: list[str], width: int, height: int
) -> None:
    canvas = Canvas(width=width, height=height)
    state = ConsoleState()
    shown = _look(text="配送 " * 300)
    for key in keys:
        before = state
        state = press(state, key, shown, canvas)
        assert [len(page.at) for page in state.pages] == [0, 2, 3, 4][: len(state.pages)]
        if state.wish is not None and before.wish is None:
            assert (before.asked, key) == (state.wish, "y")
            state = told(state, "done")
        if state.asked is not None and before.asked is None:
            assert key == "r"
    assert len(draw(shown, state, canvas)) == height


# -- the terminal's side --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("jk", ["j", "k"]),
        ("\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        ("\x1bOA\x1bOB\x1bOH", ["up", "down", "home"]),
        ("\x1b[5~\x1b[6~\x1b[1~\x1b[F", ["pageup", "pagedown", "home", "end"]),
        ("\x1b", ["escape"]),
        ("\x1bq", ["escape", "q"]),
        ("\x1b\x1b", ["escape", "escape"]),
        ("\r\n\x7f\b", ["enter", "enter", "backspace", "backspace"]),
        ("\x03\x04\x0c", ["end-of-file", "end-of-file", "redraw"]),
        ("\x1bOP\x1b[15~\x1b[1;5A\x1b[?62c\x01\x00", []),
        ("é配", ["é", "配"]),
        ("\x1b[200~x\x1b[201~", ["x"]),
    ],
)
def test_keys_have_names(text: str, keys: list[str]) -> None:
    assert key_names(text) == keys


@given(st.text("\x1b[O0123456789;?~ABCDqZ\x7f\x00\x9f配", max_size=40))
def test_no_text_makes_a_key_that_could_drive_a_terminal(text: str) -> None:
    assert all(key.isprintable() for key in key_names(text))


def test_help_names_the_keys_there_are() -> None:
    told_of = " ".join(keys for keys, _ in HELP).split()
    state = _after("enter")
    for key in told_of:
        if len(key) == 1 and key not in "gk":
            assert _after(key, state=state) != state or key == "r", key
