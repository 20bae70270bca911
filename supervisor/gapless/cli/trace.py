"""The `trace` command: what came of a transaction, and what led to it, as a tree."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gapless.cli.context import open_connection
from gapless.cli.parser import add_json, add_limit
from gapless.cli.place import transaction_id
from gapless.cli.screen import remark, say
from gapless.ops.chains import Chain, ChainUnit, trace
from gapless.ops.text import cell, json_text, plain, quantity

EXAMPLES = """\
TRANSACTION_ID is what publish() returned, and what gapless tail --json shows. The tree begins with
the first event of the chain; units of the transaction that was asked for are marked.

examples:
  gapless trace 00000000-0000-8000-8000-00000001dd1c
  gapless trace 00000000-0000-8000-8000-00000001dd1c --json
"""
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("transaction_id", type=transaction_id, metavar="TRANSACTION_ID")
    about = "show at most N units, and say how many are left out"
    add_limit(parser, 200, about, 10_000)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Print the tree."""
    with open_connection(args, "trace") as conn:
        chain = trace(conn, args.transaction_id, units_max=args.limit)
    if args.json:
        left_out = {"left_out": chain.left_out} if chain.is_cut else {}
        known = {"transaction_id": chain.transaction_id, "units": chain.records(), **left_out}
        say(json_text(known, indent=2))
        return 0
    tree = _Tree(chain)
    for root in chain.roots:
        for line in tree.unit(root, "", ""):
            say(line)
    if chain.is_cut:
        say(f"... and {_more(chain.left_out)}")
    if not chain.has_asked:
        asked = chain.transaction_id
        remark(f"no event of transaction {asked} is there any more; this is what came of it")
    if chain.has_unsequenced:
        remark("some events have no offsets yet: does a sequencer run?")
    return 0


class _Tree:
    """Draws the units of a chain, each below what it came of."""

    def __init__(self, chain: Chain) -> None:
        self._below = chain.below()

    def unit(self, unit: ChainUnit, first: str, later: str) -> Iterator[str]:
        """Draw a unit, `first` before its own line, and what is below it, `later` before that."""
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
    """Say what a group did with a unit."""
    state, letter, at = known["state"], known["letter"], known["next_offset"]
    if letter in _LETTERS:
        return _LETTERS[letter]
    if state == "pending":
        return "pending" if at is None else f"pending, it stands at offset {at}"
    if state == "removed":
        return "removed since"
    if state == "handled":
        return "handled"
    tries = quantity(known["attempts"], "attempt")
    word = "waits to be tried again" if state == "waiting" else letter
    return f"{word}, {tries}: {plain(known['reason'] or '')}"


def _more(units: int | None) -> str:
    """Say how many units are not shown."""
    return "more than were looked at" if units is None else quantity(units, "more unit")


def _arms(*, is_last: bool) -> tuple[str, str]:
    """Return what stands before a branch, and before what is below it."""
    return ("└─ ", "   ") if is_last else ("├─ ", "│  ")
