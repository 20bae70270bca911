"""`dlq export` and `dlq import`: units as JSON lines, one a line, mended in between or not."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from gapless.cli.context import open_connection
from gapless.cli.dlq.filters import filter_of
from gapless.cli.progress import Steps
from gapless.cli.screen import remark, say
from gapless.errors import UsageError
from gapless.ops.dlq.find import list_units
from gapless.ops.dlq.transfer import (
    ImportedUnit,
    export_units,
    import_unit,
    parse_units,
    republish_unit,
)
from gapless.ops.text import json_text, quantity

_GOOD = {"mended", "published"}


def export(args: argparse.Namespace) -> int:
    """Write the units that the filters choose as JSON lines, in the order of their offsets."""
    with open_connection(args, "dlq") as conn, _output(args.file) as out:
        places = [unit.place for unit in list_units(conn, filter_of(args))]
        with Steps("export", len(places), f"; {args.file} is not complete") as steps:
            for n, line in enumerate(export_units(conn, places), start=1):
                out.write(f"{line}\n")
                steps.show(n)
    remark(f"{quantity(len(places), 'unit')} exported")
    return 0


def import_(args: argparse.Namespace) -> int:
    """Take units in: put them back, or publish their events anew. All lines are read first."""
    units = _read(args.file)
    with open_connection(args, "dlq") as conn:
        if args.dry_run:
            return _would(args, units)
        counts: Counter[str] = Counter()
        # To publish twice would double events; to mend twice changes nothing.
        rest = (
            "; those lines must not be imported again"
            if args.publish
            else "; the same again is safe"
        )
        with Steps("import", len(units), rest) as steps:
            for n, unit in enumerate(units, start=1):
                if args.publish:
                    republish_unit(conn, unit)
                outcome = "published" if args.publish else import_unit(conn, unit)
                if outcome not in _GOOD:
                    remark(f"{unit.source}: {unit.place}: left alone ({outcome})")
                counts[outcome] += 1
                steps.show(n)
    return _report(args, counts)


def _read(file: str) -> list[ImportedUnit]:
    source = "standard input" if file == "-" else file
    with _input(file) as lines:
        try:
            return parse_units(lines, source)
        except UnicodeDecodeError as error:
            raise UsageError(f"{file}: {error}: nothing was changed") from error


def _would(args: argparse.Namespace, units: list[ImportedUnit]) -> int:
    remark(f"nothing was changed: {quantity(len(units), 'unit')} would be taken in")
    if args.json:
        say(json_text({"dry_run": True, "units": [str(unit.place) for unit in units]}))
    return 0


def _report(args: argparse.Namespace, counts: Counter[str]) -> int:
    if args.json:
        say(json_text(dict(counts)))
    else:
        if not counts:
            remark(f"{args.file} has no units")
        for outcome, number in sorted(counts.items()):
            say(f"{outcome}: {quantity(number, 'unit')}")
    return 0 if set(counts) <= _GOOD else 1


def _input(file: str) -> Any:
    return nullcontext(sys.stdin) if file == "-" else Path(file).open(encoding="utf-8")


def _output(file: str) -> Any:
    return nullcontext(sys.stdout) if file == "-" else Path(file).open("x", encoding="utf-8")
