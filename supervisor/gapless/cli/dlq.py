"""The `dlq` command: list and show units set aside; redrive, discard, export and import them.

A unit named by its place is changed at once, or refused (exit 2) if there is nothing to do. Several
are shown first, and changed with --yes; units that another person changed meanwhile are counted.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal, TextIO

from gapless.cli.declare import (
    Args,
    Arguments,
    Command,
    Conn,
    flag,
    limit,
    opt,
    partition,
    titled,
    together,
    yes,
)
from gapless.cli.place import argument, event_place, moment
from gapless.cli.progress import Steps, is_quiet
from gapless.cli.screen import answer, listed, remark, say
from gapless.errors import UsageError
from gapless.ops.dlq.change import (
    DlqOutcome,
    by_offset,
    discard_units,
    redrive_units,
    require_reason,
    require_units,
)
from gapless.ops.dlq.find import OPEN, STATES, DlqFilter, list_units, show_unit
from gapless.ops.dlq.lines import details_json, unit_lines
from gapless.ops.dlq.records import DlqRow, DlqUnit
from gapless.ops.dlq.summary import BY, CAUSES_MAX, summarise_units
from gapless.ops.dlq.transfer import export_units, import_unit, parse_units, republish_unit
from gapless.ops.place import read_since
from gapless.ops.text import quantity

EXAMPLES = """\
The events of a unit were published together: they are shown, redriven and discarded as a whole.
PLACE is GROUP/TOPIC/PARTITION@OFFSET of any of them.

examples:
  gapless dlq list --group billing --error "division by zero"
  gapless dlq summary --by day
  gapless dlq show billing/orders/3@17
  gapless dlq redrive billing/orders/3@17
  gapless dlq redrive --group billing --since 2026-03-01T12:00Z --yes
  gapless dlq redrive --since 2h --error "does not exist" --dry-run
  gapless dlq discard billing/orders/3@17 --reason "test data"
  gapless dlq export --group billing > letters.jsonl
"""
command = Command("dlq")
# --since gives the age.
_FILTERS = tuple(each.name for each in fields(DlqFilter) if each.name != "age")
_DONE = {"redrive": "asked", "discard": "discarded"}
_Changes = Literal["redrive", "discard"]
_GOOD = {"mended", "published"}


def _filters(states: Sequence[str]) -> Arguments:
    """Return the filters; states: those that are meant without --state."""
    rows = titled(
        "filters (all that are given must hold)",
        opt("--group", "of this group"),
        opt("--topic", "of this topic"),
        partition("of this partition"),
        opt("--key", "with an event of this key"),
        opt("--error TEXT", "with this in the error or its traceback, in any case"),
        opt("--cause TEXT", "with this error, as gapless dlq summary has it", dest="error_form"),
        opt("--type", "with an event of this type", dest="event_type"),
        opt(
            "--since TS|AGE",
            "died (failed last) then or later, or so long ago at most: 15m, 12h, 7d",
            argument(read_since),
        ),
        opt("--until TS", "died (failed last) before then", moment),
        opt(
            "--state",
            f"in this state; repeat for more (default: {', '.join(states)})",
            dest="states",
            action="append",
            choices=(*STATES, "all"),
        ),
    )

    def wanted(args: Args) -> DlqFilter:
        said = {name: getattr(args, name) for name in _FILTERS}
        chosen = args.states or list(states)
        if isinstance(args.since, timedelta):
            said |= {"since": None, "age": args.since}
        return DlqFilter(**{**said, "states": None if "all" in chosen else chosen})

    return together("wanted", wanted, rows)


@command.verb(
    "list the newest units (also without a verb)",
    _filters(OPEN),
    limit(20, "at most N, newest failure first"),
)
def _list(conn: Conn, args: Args) -> int:
    return listed(args, list_units(conn, **args.given), "no dead letters", first=["place"])


@command.verb(
    "show one with payload, error and the units that wait behind it",
    opt("place PLACE", "as in the list", event_place),
)
def _show(conn: Conn, args: Args) -> int:
    found = show_unit(conn, args.place)
    for line in [details_json(found)] if args.json else unit_lines(found):
        say(line)
    return 0


@command.verb(
    "count units by error, by type or by day",
    _filters(OPEN),
    opt("--by", f"one of {', '.join(BY)} (default: error)", choices=BY, default="error"),
    limit(CAUSES_MAX, "at most N causes, the most units first"),
)
def _summary(conn: Conn, args: Args) -> int:
    return listed(args, summarise_units(conn, **args.given), "no dead letters")


_CHOICE = (
    opt("places PLACE", "these, at once", event_place, nargs="*"),
    _filters(("dead",)),
    flag("--all", "all that are dead"),
    yes("do it, for a filter or --all"),
    flag("--dry-run", "only say what would be done"),
)


def _check_choice(args: Args, verb: _Changes) -> None:
    is_filtered = any(getattr(args, name) is not None for name in _FILTERS)
    chosen = [bool(args.places), is_filtered, args.all]
    if verb == "discard":
        require_reason(args.reason)
    if sum(chosen) == 0:
        raise UsageError(f"which ones? gapless dlq {verb} PLACE, a filter, or --all")
    if sum(chosen) > 1:
        raise UsageError("say places, or filters, or --all: not several of them")


@command.verb(
    "have units handled again, in order, once",
    *_CHOICE,
    check=lambda args: _check_choice(args, "redrive"),
)
def _redrive(conn: Conn, args: Args) -> int:
    return _change(conn, args, "redrive", redrive_units)


@command.verb(
    "give units up; units parked behind them follow",
    *_CHOICE,
    opt("--reason TEXT", "for the record", required=True),
    check=lambda args: _check_choice(args, "discard"),
)
def _discard(conn: Conn, args: Args) -> int:
    return _change(conn, args, "discard", partial(discard_units, reason=args.reason))


def _change(conn: Conn, args: Args, verb: _Changes, change: Callable[..., list[DlqOutcome]]) -> int:
    units: Sequence[DlqUnit | DlqRow] = (
        require_units(conn, args.places, verb) if args.places else list_units(conn, args.wanted)
    )
    if args.dry_run or not (args.places or args.apply):
        return _would(args, verb, units)
    advice, quiet = "; the same again does the rest", is_quiet(args)
    with Steps(verb, len(units), "unit", advice, is_quiet=quiet) as steps:
        outcomes = change(conn, [unit.place for unit in units], progress=steps.show)
    counts = Counter(each.outcome for each in outcomes)
    good = counts.pop(_DONE[verb], 0)
    if not outcomes and not args.json:
        remark("no dead letters")
        return 0
    did = "to be handled again: " if verb == "redrive" else "discarded: "
    lines = [f"{did}{quantity(good, 'unit')}"]
    for outcome, number in sorted(counts.items()):
        lines.append(f"left alone: {quantity(number, 'unit')} ({outcome})")
    told = {str(each.place): each.outcome for each in outcomes}
    return answer(args, "\n".join(lines), {verb: good, "not": dict(counts), "units": told})


def _would(args: Args, verb: _Changes, units: Sequence[DlqUnit | DlqRow]) -> int:
    ordered = by_offset([unit.place for unit in units])
    if args.json:
        return answer(args, "", dry_run=True, units=[str(place) for place in ordered])
    rows = {unit.place: unit for unit in units if isinstance(unit, DlqRow)}
    shown = [rows[place] for place in ordered if place in rows]
    listed(args, shown, "" if args.places else "no dead letters", first=["place"])
    events = quantity(sum(unit.events for unit in units), "event")
    remark(
        f"nothing was changed: would {verb} {quantity(len(units), 'unit')}, {events}"
        + ("" if args.dry_run else "; --yes does it")
    )
    return 0


@command.verb(
    "write units as JSON lines",
    opt("file", "a new file (default: - is stdout)", nargs="?", default="-"),
    _filters(OPEN),
    json=False,
)
def _export(conn: Conn, args: Args) -> int:
    """Write the units that the filters choose as JSON lines, in the order of their offsets."""
    with _opened(args.file, "x") as out:
        places = [unit.place for unit in list_units(conn, args.wanted)]
        advice = f"; {args.file} is not complete"
        is_shown = args.file == "-" and sys.stdout.isatty()  # the lines themselves
        with Steps("export", len(places), "unit", advice, is_quiet=is_shown) as steps:
            for n, line in enumerate(export_units(conn, places), start=1):
                out.write(f"{line}\n")
                steps.show(n)
    remark(f"{quantity(len(places), 'unit')} exported")
    return 0


def _opened(file: str, mode: Literal["r", "x"]) -> AbstractContextManager[TextIO]:
    if file == "-":
        return nullcontext(sys.stdin if mode == "r" else sys.stdout)
    return Path(file).open(mode, encoding="utf-8")


def _read(args: Args) -> None:
    """Read all lines, before a connection is opened."""
    source = "standard input" if args.file == "-" else args.file
    with _opened(args.file, "r") as lines:
        quiet = is_quiet(args) or lines.isatty()  # a person types
        try:
            with Steps("read", None, "line", is_quiet=quiet) as steps:
                args.units = parse_units(_counted(lines, steps), source)
        except UnicodeDecodeError as error:
            raise UsageError(f"{args.file}: {error}: nothing was changed") from error


def _counted(lines: Iterable[str], steps: Steps) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        yield line
        steps.show(number)


@command.verb(
    "put exported units back, mended or not",
    opt("file", "JSON lines (default: - is stdin)", nargs="?", default="-"),
    flag("--publish", "publish their events anew instead, for all groups"),
    flag("--dry-run", "only read and check the lines"),
    check=_read,
)
def _import(conn: Conn, args: Args) -> int:
    """Take units in: put them back, or publish their events anew."""
    if args.dry_run:
        remark(f"nothing was changed: {quantity(len(args.units), 'unit')} would be taken in")
        places = [str(unit.place) for unit in args.units]
        return answer(args, "", dry_run=True, units=places) if args.json else 0
    counts: Counter[str] = Counter()
    # Publishing twice would double events; mending twice changes nothing.
    once = "; those lines must not be imported again"
    rest = once if args.publish else "; the same again is safe"
    with Steps("import", len(args.units), "unit", rest, is_quiet=is_quiet(args)) as steps:
        for n, unit in enumerate(args.units, start=1):
            if args.publish:
                republish_unit(conn, unit)
            outcome = "published" if args.publish else import_unit(conn, unit)
            if outcome not in _GOOD:
                remark(f"{unit.source}: {unit.place}: left alone ({outcome})")
            counts[outcome] += 1
            steps.show(n)
    if counts or args.json:
        lines = [
            f"{outcome}: {quantity(number, 'unit')}" for outcome, number in sorted(counts.items())
        ]
        answer(args, "\n".join(lines), counts)
    else:
        remark(f"{args.file} has no units")
    return 0 if set(counts) <= _GOOD else 1
