"""The `dlq` command: list dead letters, show one with its error and its unit."""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from gapless.cli.context import open_connection
from gapless.cli.parser import Parser, add_json, whole
from gapless.cli.rows import rows
from gapless.cli.screen import cell, plain, safe_json, say, show, stamp, to_json
from gapless.db.queries import query
from gapless.errors import UsageError

HELP = "list and show dead letters: what was refused, and why"
EXAMPLES = """\
examples:
  gapless dlq list --group billing
  gapless dlq show billing/orders/3/17
"""
_NEIGHBOURS_MAX = 50
_JSON_FIELDS = ("headers", "payload")
_NUMBER = re.compile("[0-9]{1,18}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterRow:
    """A line of `dlq list`."""

    group: str
    topic: str
    partition: int
    offset: int
    key: str | None
    event_type: str | None
    attempts: int
    died: datetime
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter, all of it; headers and payload are JSON text."""

    group: str
    topic: str
    partition: int
    offset: int
    message_id: int
    key: str | None
    event_type: str | None
    host_id: str | None
    user_id: str | None
    transaction_id: UUID
    published: datetime
    died: datetime
    attempts: int
    status: str
    sqlstate: str | None
    exception: str
    headers: str | None
    payload: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitOffset:
    """A dead letter of the same unit."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    group: str
    topic: str
    partition: int
    offset: int


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    listing = verbs.add_parser("list", help="list the newest dead letters (also without a verb)")
    listing.set_defaults(act=_list)
    listing.add_argument("--group", help="only of this group")
    listing.add_argument("--topic", help="only of this topic")
    listing.add_argument(
        "--limit",
        type=whole(1, 1_000_000),
        default=20,
        metavar="N",
        help="at most N, newest first (default: 20)",
    )
    add_json(listing)
    showing = verbs.add_parser("show", help="show one with its payload, its error and its unit")
    showing.set_defaults(act=_show)
    showing.add_argument(
        "place", type=_place, metavar="GROUP/TOPIC/PARTITION/OFFSET", help="as in the list"
    )
    add_json(showing)


def main(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    code: int = args.act(args)
    return code


def _list(args: argparse.Namespace) -> int:
    with open_connection(args, "dlq") as conn:
        found = rows(
            conn,
            LetterRow,
            query("cli", "dead_letters"),
            group=args.group,
            topic=args.topic,
            limit=args.limit,
        )
    show(LetterRow, found, as_json=args.json, empty="no dead letters")
    return 0


def _show(args: argparse.Namespace) -> int:
    place = asdict(args.place)
    with open_connection(args, "dlq") as conn:
        found = rows(conn, Letter, query("cli", "dead_letter"), **place)
        if not found:
            raise UsageError(
                f"there is no dead letter {'/'.join(map(str, place.values()))}: "
                "gapless dlq list shows what there is"
            )
        letter = found[0]
        unit = rows(
            conn,
            UnitOffset,
            query("cli", "unit_of_letter"),
            **place,
            transaction_id=letter.transaction_id,
            limit=_NEIGHBOURS_MAX,
        )
    offsets = [row.offset for row in unit]
    if args.json:
        say(_letter_json(letter, offsets))
    else:
        _print_letter(letter, offsets)
    return 0


def _letter_json(letter: Letter, unit: list[int]) -> str:
    """Write the letter as one JSON object; payload and headers stay the producer's own text."""
    known = {name: value for name, value in asdict(letter).items() if name not in _JSON_FIELDS}
    head = to_json({**known, "unit": unit})[:-1]
    tail = ", ".join(
        f'"{name}": {safe_json(getattr(letter, name) or "null")}' for name in _JSON_FIELDS
    )
    return f"{head}, {tail}}}"


def _print_letter(letter: Letter, unit: list[int]) -> None:
    say(f"dead letter {letter.group}/{letter.topic}/{letter.partition}/{letter.offset}")
    for name in ("key", "event_type", "host_id", "user_id", "transaction_id"):
        say(f"  {name:<15} {cell(getattr(letter, name))}")
    say(f"  {'published':<15} {stamp(letter.published)} (message_id {letter.message_id})")
    say(f"  {'died':<15} {stamp(letter.died)} after {letter.attempts} attempt(s)")
    others = [offset for offset in unit if offset != letter.offset]
    more = ", ..." if len(unit) == _NEIGHBOURS_MAX else ""
    together = ", ".join(map(str, others)) + more if others else "none: it was alone in its unit"
    say(f"  {'died with it':<15} {together}")
    for name in _JSON_FIELDS:
        text = getattr(letter, name)
        if text is not None:
            say(f"\n{name}")
            say(_indented(_pretty(text)))
    say("\nerror" + (f" (SQLSTATE {letter.sqlstate})" if letter.sqlstate else ""))
    say(_indented("\n".join(plain(line) for line in letter.exception.splitlines())))


def _pretty(text: str) -> str:
    """Indent JSON; leave what Python cannot hold as it is."""
    try:
        return to_json(json.loads(text), indent=2)
    except (ValueError, RecursionError):
        return safe_json(text)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def _place(text: str) -> _Place:
    parts = text.split("/")
    if len(parts) != 4 or not all(_NUMBER.fullmatch(part) for part in parts[2:]):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not GROUP/TOPIC/PARTITION/OFFSET, such as billing/orders/3/17"
        )
    return _Place(group=parts[0], topic=parts[1], partition=int(parts[2]), offset=int(parts[3]))
