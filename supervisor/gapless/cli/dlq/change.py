"""`dlq redrive` and `dlq discard`: one unit, some by a filter, or all; each unit once, in order.

One by its place is done at once, and refused (exit 2) when there is nothing to do. Many are shown
first, and done with --yes; what somebody else did meanwhile is counted, not an error.
"""

from __future__ import annotations

import argparse
import getpass
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

from gapless.cli.context import open_connection
from gapless.cli.dlq.filters import Unit, UnitRow, find, is_filtered, require
from gapless.cli.dlq.show import ahead_of
from gapless.cli.progress import Steps
from gapless.cli.screen import note, say, show
from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.ops.rows import rows
from gapless.ops.text import count, plain, stamp, to_json

if TYPE_CHECKING:
    from psycopg import Connection

_UNITS_PER_COMMIT = 50
_DONE = {"redrive": "asked", "discard": "discarded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the n-th unit that was asked for, from 1."""

    n: int
    outcome: str


def redrive(args: argparse.Namespace) -> int:
    """Have units handled again."""
    return _change(args, "redrive", query("dlq", "redrive"), {"who": me()})


def discard(args: argparse.Namespace) -> int:
    """Give units up."""
    if not args.reason.strip():
        raise UsageError("--reason must say something: it is what remains")
    what = {"who": me(), "reason": args.reason}
    return _change(args, "discard", query("dlq", "discard"), what)


def me() -> str:
    """Return who is at the keyboard, for the record: the role may be everybody's."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "?"
    return f"{user}@{socket.gethostname()}"


def _change(
    args: argparse.Namespace, verb: str, statement: LiteralString, what: dict[str, Any]
) -> int:
    _require_choice(args, verb)
    with open_connection(args, "dlq") as conn:
        if args.places:
            units: Sequence[Unit | UnitRow] = [require(conn, place) for place in args.places]
            for unit in units:
                if isinstance(unit, Unit):
                    _refuse(conn, unit, verb)
        else:
            units = find(conn, args, limit=None)
        ordered = sorted(units, key=lambda u: (u.group, u.topic, u.partition, u.offset))
        if args.dry_run or not (args.places or args.yes):
            return _would(args, verb, ordered)
        outcomes = list(_do(conn, ordered, statement, what, title=verb))
    return _report(args, verb, ordered, outcomes)


def _require_choice(args: argparse.Namespace, verb: str) -> None:
    chosen = [bool(args.places), is_filtered(args), args.all]
    if sum(chosen) == 0:
        raise UsageError(f"which ones? gapless dlq {verb} PLACE, a filter, or --all")
    if sum(chosen) > 1:
        raise UsageError("say places, or filters, or --all: not several of them")


def _refuse(conn: Connection[Any], unit: Unit, verb: str) -> None:
    """Raise UsageError for a unit with which this cannot be done (any more)."""
    if unit.state == "redriven" and unit.closed:
        raise UsageError(
            f"{unit.place} was redriven already, by {plain(unit.redriven_by or '?')}: "
            f"it was handled {stamp(unit.closed)}"
        )
    if unit.state == "discarded" and unit.closed:
        raise UsageError(
            f"{unit.place} was discarded already, by {plain(unit.discarded_by or '?')}, "
            f"{stamp(unit.closed)}: {plain(unit.discard_reason or '')}"
        )
    if verb != "redrive":
        return
    if unit.state == "waiting" and unit.redriven and unit.next_attempt == unit.redriven:
        raise UsageError(
            f"{unit.place} was redriven already, by {plain(unit.redriven_by or '?')}, "
            f"{stamp(unit.redriven)}: it waits for the worker of its partition"
        )
    if unit.state == "parked":
        raise UsageError(
            f"{unit.place} is parked behind {ahead_of(conn, unit)}: redrive or discard that one, "
            "and it follows"
        )


def _would(args: argparse.Namespace, verb: str, units: Sequence[Unit | UnitRow]) -> int:
    if args.json:
        say(to_json({"dry_run": True, "units": [unit.place for unit in units]}))
        return 0
    listed = [unit for unit in units if isinstance(unit, UnitRow)]
    show(UnitRow, listed, as_json=False, empty="" if args.places else "no dead letters")
    events = count(sum(unit.events for unit in units), "event")
    note(
        f"nothing was changed: would {verb} {count(len(units), 'unit')}, {events}"
        + ("" if args.dry_run else "; --yes does it")
    )
    return 0


def _do(
    conn: Connection[Any],
    units: Sequence[Unit | UnitRow],
    statement: LiteralString,
    what: dict[str, Any],
    *,
    title: str,
) -> Iterator[str]:
    """Change the units, some to a transaction, so that workers and other people never wait long."""
    with Steps(title, len(units), "; the same again does the rest") as steps:
        for start in range(0, len(units), _UNITS_PER_COMMIT):
            some = units[start : start + _UNITS_PER_COMMIT]
            places = {
                "groups": [unit.group for unit in some],
                "topics": [unit.topic for unit in some],
                "partitions": [unit.partition for unit in some],
                "offsets": [unit.offset for unit in some],
            }
            yield from (row.outcome for row in rows(conn, Outcome, statement, **places, **what))
            steps.show(start + len(some))


def _report(
    args: argparse.Namespace, verb: str, units: Sequence[Unit | UnitRow], outcomes: Sequence[str]
) -> int:
    counts = Counter(outcomes)
    good = counts.pop(_DONE[verb], 0)
    if args.json:
        told = {unit.place: outcome for unit, outcome in zip(units, outcomes, strict=True)}
        say(to_json({verb: good, "not": dict(counts), "units": told}))
    elif not units:
        note("no dead letters")
    else:
        did = "to be handled again: " if verb == "redrive" else "discarded: "
        say(f"{did}{count(good, 'unit')}")
        for outcome, number in sorted(counts.items()):
            say(f"left alone: {count(number, 'unit')} ({outcome})")
    return 0
