"""`dlq redrive` and `dlq discard`: one unit, some by a filter, or all; each unit once, in order.

One by its place is done at once, and refused (exit 2) when there is nothing to do. Many are shown
first, and done with --yes; what somebody else did meanwhile is counted, not an error.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

from gapless.cli.context import open_connection
from gapless.cli.dlq.filters import filter_of, is_filtered
from gapless.cli.progress import Steps
from gapless.cli.screen import remark, say, show
from gapless.errors import UsageError
from gapless.ops.dlq.change import (
    DlqOutcome,
    by_offset,
    discard_units,
    redrive_units,
    require_reason,
    require_units,
)
from gapless.ops.dlq.find import list_units
from gapless.ops.dlq.records import DlqRow, DlqUnit
from gapless.ops.text import json_text, quantity

Verb = Literal["redrive", "discard"]
_DONE = {"redrive": "asked", "discard": "discarded"}


def redrive_chosen(args: argparse.Namespace) -> int:
    """Have units handled again."""
    return _change(args, "redrive", redrive_units)


def discard_chosen(args: argparse.Namespace) -> int:
    """Give units up."""
    require_reason(args.reason)
    return _change(args, "discard", discard_units, reason=args.reason)


def _change(
    args: argparse.Namespace, verb: Verb, change: Callable[..., list[DlqOutcome]], **what: Any
) -> int:
    _require_choice(args, verb)
    with open_connection(args, "dlq") as conn:
        units: Sequence[DlqUnit | DlqRow] = (
            require_units(conn, args.places, verb)
            if args.places
            else list_units(conn, filter_of(args))
        )
        if args.dry_run or not (args.places or args.apply):
            return _would(args, verb, units)
        with Steps(verb, len(units), "; the same again does the rest") as steps:
            places = [unit.place for unit in units]
            outcomes = change(conn, places, progress=steps.show, **what)
    return _report(args, verb, outcomes)


def _require_choice(args: argparse.Namespace, verb: Verb) -> None:
    chosen = [bool(args.places), is_filtered(args), args.all]
    if sum(chosen) == 0:
        raise UsageError(f"which ones? gapless dlq {verb} PLACE, a filter, or --all")
    if sum(chosen) > 1:
        raise UsageError("say places, or filters, or --all: not several of them")


def _would(args: argparse.Namespace, verb: Verb, units: Sequence[DlqUnit | DlqRow]) -> int:
    ordered = by_offset([unit.place for unit in units])
    if args.json:
        say(json_text({"dry_run": True, "units": [str(place) for place in ordered]}))
        return 0
    listed = {unit.place: unit for unit in units if isinstance(unit, DlqRow)}
    shown = [listed[place] for place in ordered if place in listed]
    show(DlqRow, shown, as_json=False, empty="" if args.places else "no dead letters")
    events = quantity(sum(unit.events for unit in units), "event")
    remark(
        f"nothing was changed: would {verb} {quantity(len(units), 'unit')}, {events}"
        + ("" if args.dry_run else "; --yes does it")
    )
    return 0


def _report(args: argparse.Namespace, verb: Verb, outcomes: Sequence[DlqOutcome]) -> int:
    counts = Counter(each.outcome for each in outcomes)
    good = counts.pop(_DONE[verb], 0)
    if args.json:
        told = {str(each.place): each.outcome for each in outcomes}
        say(json_text({verb: good, "not": dict(counts), "units": told}))
    elif not outcomes:
        remark("no dead letters")
    else:
        did = "to be handled again: " if verb == "redrive" else "discarded: "
        say(f"{did}{quantity(good, 'unit')}")
        for outcome, number in sorted(counts.items()):
            say(f"left alone: {quantity(number, 'unit')} ({outcome})")
    return 0
