"""The `pause` command: let a group, or one partition of it, rest until somebody says resume."""

from __future__ import annotations

import argparse

from gapless.cli.context import open_connection
from gapless.cli.parser import add_json
from gapless.cli.place import add_range, describe, range_of, refuse_offset
from gapless.cli.screen import say
from gapless.db.queries import query
from gapless.ops.text import count, to_json

HELP = "let a group or a partition rest: its workers finish their batch and go"
EXAMPLES = """\
It holds over restarts, until gapless resume. The partition keeps its place in the plan.

examples:
  gapless pause billing
  gapless pause billing/orders/3 --reason "bad deploy"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_range(parser)
    parser.add_argument("--reason", metavar="TEXT", help="for whoever wonders (gapless status)")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Pause."""
    refuse_offset(args)
    where = range_of(args)
    with open_connection(args, "pause") as conn:
        row = conn.execute(query("control", "pause"), {**where, "reason": args.reason}).fetchone()
        busy = conn.execute(query("control", "busy"), where).fetchone()
    assert row is not None
    assert busy is not None
    if args.json:
        say(to_json({**where, "new_pauses": row[0], "workers_finishing": busy[0]}))
        return 0
    say(f"paused {describe(args)}" if row[0] else f"nothing to do: {describe(args)} is paused")
    if busy[0]:
        have = "has" if busy[0] == 1 else "have"
        say(f"{count(busy[0], 'partition')} still {have} a worker; it goes when its batch is done")
    return 0
