"""A chain as text: a tree of its units, and of their states in each group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gapless.features.chains.ops import Chain, ChainUnit
from gapless.ops.text import cell, plain, quantity

_WORDS_MAX = 5
_MARK = "   <-- asked for"
_LETTERS = {
    "parked": "parked behind an earlier unit of its key",
    "redriven": "handled, after a redrive",
}
_DETACHED = {
    "dropped": "which retention dropped",
    "elsewhere": "which is not of this chain",
    "left-out": "which is left out here",
}


def chain_lines(chain: Chain) -> Iterator[str]:
    """Yield the lines of the tree, harmless on a terminal."""
    tree = _Tree(chain)
    for root in chain.roots:
        yield from tree.unit(root, "", "")
    if chain.is_cut:
        yield f"... and {_more(chain.left_out)}"


class _Tree:
    """Draws the units of a chain, each below its cause."""

    def __init__(self, chain: Chain) -> None:
        self._below = chain.below()

    def unit(self, unit: ChainUnit, first: str, later: str) -> Iterator[str]:
        """Draw a unit, `first` before its own line, and its branches, `later` before theirs."""
        yield first + _unit_line(unit)
        branches: list[tuple[str, Sequence[ChainUnit]]] = [
            (f"{plain(known['group'])}: {_done(known)}", self._below[unit.node, known["group"]])
            for known in unit.groups
        ]
        if unit.left_out:
            branches.append((f"... and {_more(unit.left_out)} came of it", []))
        for n, (line, units) in enumerate(branches, start=1):
            own, inner = _arms(is_last=n == len(branches))
            yield f"{later}{own}{line}"
            for m, each in enumerate(units, start=1):
                arm, rest = _arms(is_last=m == len(units))
                yield from self.unit(each, later + inner + arm, later + inner + rest)


def _unit_line(unit: ChainUnit) -> str:
    words = [
        _place(unit),
        quantity(unit.events or 0, "event"),
        _list(unit.event_types),
        f"key {_list(unit.keys)}" if unit.keys else "",
        f"transaction {unit.transaction_id}",
    ]
    if unit.state == "dropped":
        words.append("(dropped by retention, kept as a dead letter)")
    if unit.detached:
        words.append(f"(came of {plain(unit.cause or '')}, {_DETACHED[unit.detached]})")
    return "  ".join(filter(None, words)) + (_MARK if unit.is_asked else "")


def _place(unit: ChainUnit) -> str:
    if unit.first_offset is None:
        return f"{unit.topic} (no offset yet)"
    last = f"..{unit.last_offset}" if unit.last_offset != unit.first_offset else ""
    return f"{unit.topic}/{unit.partition}@{unit.first_offset}{last}"


def _list(words: Sequence[str] | None) -> str:
    shown = [cell(word) for word in (words or ())[:_WORDS_MAX]]
    return ", ".join([*shown, *(["..."] if len(words or ()) > _WORDS_MAX else [])])


def _done(known: Mapping[str, Any]) -> str:
    """Say how far a group is with a unit."""
    state, letter, at = known["state"], known["letter"], known["next_offset"]
    if letter in _LETTERS:
        return _LETTERS[letter]
    if state == "pending":
        return "pending" if at is None else f"pending, it stands at offset {at}"
    if state == "removed":
        return "removed since"
    if state in ("handled", "skipped"):
        return str(state)
    tries = quantity(known["attempts"], "attempt")
    word = "waits to be tried again" if state == "waiting" else letter
    return f"{word}, {tries}: {plain(known['reason'] or '')}"


def _more(units: int | None) -> str:
    """Say how many units are not shown."""
    return "more than were looked at" if units is None else quantity(units, "more unit")


def _arms(*, is_last: bool) -> tuple[str, str]:
    """Return the text before a branch, and the text before the lines below it."""
    return ("└─ ", "   ") if is_last else ("├─ ", "│  ")
