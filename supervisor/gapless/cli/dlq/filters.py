"""The options that choose dead letters, and the filter that they mean."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timedelta

from gapless.cli.parser import add_partition
from gapless.cli.place import moment
from gapless.ops.dlq.find import STATES, DlqFilter
from gapless.ops.text import whole_seconds

# An age is said with --since.
_FILTERS = tuple(each.name for each in fields(DlqFilter) if each.name != "age")


def add_filters(parser: argparse.ArgumentParser, *, states: Sequence[str]) -> None:
    """Declare the filters; `states` are those meant without --state."""
    chosen = parser.add_argument_group("which ones (all that are said must hold)")
    chosen.add_argument("--group", help="of this group")
    chosen.add_argument("--topic", help="of this topic")
    add_partition(chosen, "of this partition")
    chosen.add_argument("--key", help="with an event of this key")
    chosen.add_argument(
        "--error", metavar="TEXT", help="with this in the error or its traceback, in any case"
    )
    chosen.add_argument(
        "--since",
        type=_since,
        metavar="TS|AGE",
        help="died (failed last) then or later, or so long ago at most: 15m, 12h, 7d",
    )
    chosen.add_argument("--until", type=moment, metavar="TS", help="died (failed last) before then")
    chosen.add_argument(
        "--state",
        dest="states",
        action="append",
        choices=(*STATES, "all"),
        help=f"in this state; repeat for more (default: {', '.join(states)})",
    )
    parser.set_defaults(default_states=states)


def is_filtered(args: argparse.Namespace) -> bool:
    """Tell whether any filter was said."""
    return any(getattr(args, name) is not None for name in _FILTERS)


def filter_of(args: argparse.Namespace) -> DlqFilter:
    """Return the filter that the options mean."""
    said = {name: getattr(args, name) for name in _FILTERS}
    states = args.states or list(args.default_states)
    if isinstance(args.since, timedelta):
        said |= {"since": None, "age": args.since}
    return DlqFilter(**{**said, "states": None if "all" in states else states})


def _since(text: str) -> datetime | timedelta:
    """Read a time, or an age by the database's clock."""
    seconds = whole_seconds(text)
    if seconds is not None:
        return timedelta(seconds=seconds)
    try:
        return moment(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or an age as 15m, 12h, 7d") from None
