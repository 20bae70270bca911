"""The `trace` command: what came of a transaction, and what led to it, as a tree."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from gapless.cli.context import open_connection
from gapless.cli.parser import add_json, whole
from gapless.cli.place import transaction
from gapless.cli.screen import cell, note, say
from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.ops.rows import rows
from gapless.ops.text import count, plain, to_json

HELP = "show what came of a transaction: a tree of events, and of what each group did with them"
EXAMPLES = """\
TRANSACTION_ID is what publish() returned, and what gapless tail --json shows. The tree begins with
the first event of the chain; units of the transaction that was asked for are marked.

examples:
  gapless trace 00000000-0000-8000-8000-00000001dd1c
  gapless trace 00000000-0000-8000-8000-00000001dd1c --json
"""
_WORDS_MAX = 5
_MARK = "   <-- asked for"
_FATES = {
    "open": "it has not committed yet",
    "rolled-back": "it was rolled back: nothing of it was published",
    "unknown": "no event of it is there: not committed, rolled back, older than the log, "
    "or never published",
}
_LETTERS = {
    "parked": "parked behind an earlier unit of its key",
    "redriven": "handled, after a redrive",
}
_DETACHED = {
    "dropped": "which retention dropped",
    "elsewhere": "which is not of this chain",
    "left-out": "which is left out here",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A row of gapless.trace(): a unit, or, without `node`, how many are left out."""

    node: int | None
    parent: int | None
    is_asked: bool
    group: str | None
    cause: str | None
    detached: str | None
    topic: str | None
    partition: int | None
    first_offset: int | None
    last_offset: int | None
    events: int | None
    event_types: list[str] | None
    keys: list[str] | None
    transaction_id: UUID | None
    published: datetime | None
    state: str
    groups: list[dict[str, Any]]
    left_out: int | None


class Tree:
    """The units of a chain, below what they came of."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.below: dict[tuple[int | None, str | None], list[Node]] = defaultdict(list)
        self.roots = [each for each in nodes if each.node is not None and each.parent is None]
        for each in nodes:
            if each.parent is not None:
                self.below[each.parent, each.group].append(each)
        self.rest = next((each for each in nodes if each.node is None), None)
        self.has_asked = any(each.is_asked for each in nodes)
        self.has_unsequenced = any(each.state == "unsequenced" for each in nodes)

    def lines(self) -> Iterator[str]:
        """Draw it."""
        for root in self.roots:
            yield from self._unit(root, "", "")
        if self.rest is not None:
            yield f"... and {_more(self.rest.left_out)}"

    def records(self) -> list[dict[str, Any]]:
        """Return it as nested records."""
        return [self._record(root) for root in self.roots]

    def _unit(self, unit: Node, first: str, later: str) -> Iterator[str]:
        """Draw a unit, `first` before its own line, and what is below it, `later` before that."""
        yield first + _unit_line(unit)
        branches: list[tuple[str, list[Node]]] = [
            (f"{plain(known['group'])}: {_done(known)}", self.below[unit.node, known["group"]])
            for known in unit.groups
        ]
        if unit.left_out:
            branches.append((f"... and {_more(unit.left_out)} came of it", []))
        for n, (line, units) in enumerate(branches, start=1):
            own, inner = _arms(is_last=n == len(branches))
            yield f"{later}{own}{line}"
            for m, each in enumerate(units, start=1):
                arm, rest = _arms(is_last=m == len(units))
                yield from self._unit(each, later + inner + arm, later + inner + rest)

    def _record(self, unit: Node) -> dict[str, Any]:
        known = asdict(unit)
        for name in ("node", "parent", "is_asked"):
            del known[name]
        return {
            **known,
            "asked_for": unit.is_asked,
            "groups": [
                {
                    **each,
                    "published": [
                        self._record(below) for below in self.below[unit.node, each["group"]]
                    ],
                }
                for each in unit.groups
            ],
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("transaction_id", type=transaction, metavar="TRANSACTION_ID")
    parser.add_argument(
        "--limit",
        type=whole(1, 10_000),
        default=200,
        metavar="N",
        help="show at most N units, and say how many are left out (default: 200)",
    )
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Print the tree."""
    asked: UUID = args.transaction_id
    with open_connection(args, "trace") as conn:
        found = rows(conn, Node, query("cli", "trace"), transaction_id=asked, units_max=args.limit)
        if not found:
            fate = query("cli", "transaction_fate")
            row = conn.execute(fate, {"transaction_id": asked}).fetchone()
            assert row is not None
            raise UsageError(f"transaction {asked}: {_FATES[row[0]]}")
    tree = Tree(found)
    if args.json:
        left_out = {} if tree.rest is None else {"left_out": tree.rest.left_out}
        say(to_json({"transaction_id": asked, "units": tree.records(), **left_out}, indent=2))
        return 0
    for line in tree.lines():
        say(line)
    if not tree.has_asked:
        note(f"no event of transaction {asked} is there any more; this is what came of it")
    if tree.has_unsequenced:
        note("some events have no offsets yet: does a sequencer run?")
    return 0


def _unit_line(unit: Node) -> str:
    words = [
        _place(unit),
        count(unit.events or 0, "event"),
        _list(unit.event_types),
        f"key {_list(unit.keys)}" if unit.keys else "",
        f"transaction {unit.transaction_id}",
    ]
    if unit.state == "dropped":
        words.append("(dropped by retention, kept as a dead letter)")
    if unit.detached:
        words.append(f"(came of {plain(unit.cause or '')}, {_DETACHED[unit.detached]})")
    return "  ".join(filter(None, words)) + (_MARK if unit.is_asked else "")


def _place(unit: Node) -> str:
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
    tries = count(known["attempts"], "attempt")
    word = "waits to be tried again" if state == "waiting" else letter
    return f"{word}, {tries}: {plain(known['reason'] or '')}"


def _more(units: int | None) -> str:
    """Say how many units are not shown."""
    return "more than were looked at" if units is None else count(units, "more unit")


def _arms(*, is_last: bool) -> tuple[str, str]:
    """Return what stands before a branch, and before what is below it."""
    return ("└─ ", "   ") if is_last else ("├─ ", "│  ")
