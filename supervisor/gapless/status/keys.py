"""The effect of a key on the state (pure): `press` is all that a key does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from gapless.status.view import (
    SORTS,
    UNIT_DEPTH,
    Canvas,
    ConsolePage,
    ConsoleState,
    Look,
    chosen_index,
    row_names,
    text_lines,
)

FILTER_CHARACTERS_MAX = 60
HELP = (  # each fits 40 columns
    ("arrows j k", "choose a row"),
    ("space b", "a page down, up"),
    ("g G", "first row, last row"),
    ("enter", "open what is chosen"),
    ("esc", "back"),
    ("/", "only rows with this text"),
    ("s", "sort: lag, name, rate"),
    ("r", "redrive; asks first"),
    ("q", "back, at last quit"),
    ("?", "this help"),
)
_OTHER_LINES = 8  # of a page: those outside the list


def press(state: ConsoleState, key: str, look: Look, canvas: Canvas) -> ConsoleState:
    """Return the state after a key; look and canvas are those that the person saw.

    key: a character, or up, down, left, right, home, end, pageup, pagedown, enter, escape,
    backspace, end-of-file.
    """
    state = replace(state, said=None)
    if key == "end-of-file":
        return replace(state, has_quit=not state.stays)
    if state.asked is not None:
        return _answered(state, key)
    if state.mode == "filter":
        return _typed(state, key)
    if state.mode == "help":
        return replace(state, mode="look")
    if key in _MOVES:
        return _moved(state, _MOVES[key], look, canvas)
    act = _ACTS.get(key)
    return act(state, look) if act else state


def told(state: ConsoleState, text: str) -> ConsoleState:
    """Return the state after the wish was carried out, or has failed."""
    return replace(state, wish=None, said=text)


def _answered(state: ConsoleState, key: str) -> ConsoleState:
    """Take an answer: only y is a yes."""
    if key in ("y", "Y"):
        return replace(state, wish=state.asked, asked=None, said="redriving ...")
    return replace(state, asked=None, said="left as it is")


def _typed(state: ConsoleState, key: str) -> ConsoleState:
    """Take a key while a filter is typed: the filter applies at once."""
    text = state.page.filter
    if key == "escape":
        return replace(_page(state, filter=""), mode="look")
    if key == "backspace":
        return _page(state, filter=text[:-1])
    if len(key) == 1 and key.isprintable():
        return _page(state, filter=(text + key)[:FILTER_CHARACTERS_MAX])
    return replace(state, mode="look") if key == "enter" else state


# Rows, pages of rows, or all the way: (rows, pages).
_ALL = 1_000_000
_MOVES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"down": (1, 0), "j": (1, 0), "up": (-1, 0), "k": (-1, 0)}
    | {"pagedown": (0, 1), " ": (0, 1), "pageup": (0, -1), "b": (0, -1)}
    | {"home": (-_ALL, 0), "g": (-_ALL, 0), "end": (_ALL, 0), "G": (_ALL, 0)}
)


def _moved(state: ConsoleState, move: tuple[int, int], look: Look, canvas: Canvas) -> ConsoleState:
    rows, pages = move
    room = max(1, (canvas.height or 0) - _OTHER_LINES)
    by = rows + pages * room
    if len(state.page.at) == UNIT_DEPTH:
        most = max(0, len(text_lines(look, state, canvas)) - room)
        return _page(state, scroll=min(most, max(0, state.page.scroll + by)))
    names = row_names(look, state)
    if not names:
        return state
    index = chosen_index(names, state.page) + by
    return _page(state, chosen=names[min(len(names) - 1, max(0, index))])


def _enter(state: ConsoleState, look: Look) -> ConsoleState:
    names = [] if len(state.page.at) == UNIT_DEPTH else row_names(look, state)
    if not names:
        return state
    at = names[chosen_index(names, state.page)]
    # A row chosen without a move stays chosen: a person who comes back finds it.
    state = _page(state, chosen=at)
    return replace(state, pages=(*state.pages, ConsolePage(at=at)))


def _back(state: ConsoleState, look: Look) -> ConsoleState:
    """Drop the filter, or without one go back a page."""
    return _page(state, filter="") if state.page.filter else _up(state, look)


def _up(state: ConsoleState, _: Look) -> ConsoleState:
    return replace(state, pages=state.pages[:-1]) if len(state.pages) > 1 else state


def _quit(state: ConsoleState, look: Look) -> ConsoleState:
    if len(state.pages) > 1:
        return _up(state, look)
    return replace(state, has_quit=not state.stays)


def _sort(state: ConsoleState, _: Look) -> ConsoleState:
    return replace(state, sort=SORTS[(SORTS.index(state.sort) + 1) % len(SORTS)])


def _filter(state: ConsoleState, _: Look) -> ConsoleState:
    return state if len(state.page.at) == UNIT_DEPTH else replace(state, mode="filter")


def _help(state: ConsoleState, _: Look) -> ConsoleState:
    return replace(state, mode="help")


def _redrive(state: ConsoleState, look: Look) -> ConsoleState:
    """Ask first; the question stays with its unit, however the rows move."""
    page = state.page
    if len(page.at) == UNIT_DEPTH:
        return replace(state, asked=page.at)
    names = row_names(look, state) if len(page.at) == UNIT_DEPTH - 1 else []
    return replace(state, asked=names[chosen_index(names, page)]) if names else state


def _page(state: ConsoleState, **changes: Any) -> ConsoleState:
    """Return the state with changes of the page that is shown."""
    return replace(state, pages=(*state.pages[:-1], replace(state.page, **changes)))


_ACTS: Mapping[str, Callable[[ConsoleState, Look], ConsoleState]] = MappingProxyType(
    {"enter": _enter, "right": _enter, "escape": _back, "left": _back, "backspace": _back}
    | {"q": _quit, "s": _sort, "/": _filter, "?": _help, "r": _redrive}
)
