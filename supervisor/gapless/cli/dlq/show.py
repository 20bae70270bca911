"""`dlq list` and `dlq show`: a table of units; one unit, its error, and what waits behind it."""

from __future__ import annotations

import argparse
from functools import partial

from gapless.cli.context import open_connection, show_found
from gapless.cli.dlq.filters import filter_of
from gapless.cli.screen import say
from gapless.ops.dlq.find import list_units, show_unit
from gapless.ops.dlq.lines import details_json, unit_lines
from gapless.ops.dlq.records import DlqRow


def print_list(args: argparse.Namespace) -> int:
    """Print the units that the filters choose."""
    find = partial(list_units, wanted=filter_of(args), limit=args.limit)
    return show_found(args, "dlq", DlqRow, find, "no dead letters")


def print_one(args: argparse.Namespace) -> int:
    """Print one unit."""
    with open_connection(args, "dlq") as conn:
        found = show_unit(conn, args.place)
    if args.json:
        say(details_json(found))
        return 0
    for line in unit_lines(found):
        say(line)
    return 0
