"""The `skip` command: let a group pass a hole in the log."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from gapless.cli.context import open_connection
from gapless.cli.parser import add_json
from gapless.cli.place import event_place
from gapless.cli.screen import answer
from gapless.ops.control import skip_hole
from gapless.ops.text import quantity

EXAMPLES = """\
A hole is what somebody deleted from the log by hand; gapless status names the offset at which a
group has stopped. Restore what is missing if you can: then it continues by itself. What is there
of a unit that the hole tore is passed as well, for a unit is handled as a whole or not at all.
gapless.audit keeps what was passed.

example:
  gapless skip billing/orders/3@17
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("place", type=event_place, metavar="GROUP/TOPIC/PARTITION@OFFSET")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Pass the hole, or refuse because there is none."""
    with open_connection(args, "skip") as conn:
        done = skip_hole(conn, args.place)
    whole = done.passed - done.missing
    torn = f", and {quantity(whole, 'event')} of the units that they tore" if whole else ""
    answer(
        args,
        f"{done.group}/{done.topic}/{done.partition} passed offsets {done.first_offset} to "
        f"{done.last_offset}: {quantity(done.missing, 'event')} missing{torn}",
        **asdict(done),
    )
    return 0
