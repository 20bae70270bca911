"""The `resume` command: let what was paused go on."""

from __future__ import annotations

import argparse

from gapless.cli.context import open_connection
from gapless.cli.parser import add_json
from gapless.cli.place import add_range, describe, range_of, refuse_offset
from gapless.cli.screen import say
from gapless.db.queries import query
from gapless.ops.text import to_json

HELP = "let a paused group or partition go on where it was"
EXAMPLES = """\
It ends every pause in that range, also one that a killed gapless seek --pause left behind.

examples:
  gapless resume billing
  gapless resume billing/orders/3
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_range(parser)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Resume."""
    refuse_offset(args)
    where = range_of(args)
    with open_connection(args, "resume") as conn:
        row = conn.execute(query("control", "resume"), {**where, "holder": None}).fetchone()
    assert row is not None
    if args.json:
        say(to_json({**where, "ended_pauses": row[0]}))
    elif row[0]:
        say(f"resumed {describe(args)}")
    else:
        say(f"nothing to do: {describe(args)} is not paused")
    return 0
