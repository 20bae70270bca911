"""The `pause` command: let a group, or one partition of it, rest until somebody says resume."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from gapless.cli.context import open_connection
from gapless.cli.parser import add_json
from gapless.cli.place import add_range, in_words, place_of
from gapless.cli.screen import answer
from gapless.ops.control import pause
from gapless.ops.text import quantity

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
    place = place_of(args)
    place.require_whole()
    with open_connection(args, "pause") as conn:
        done = pause(conn, place, reason=args.reason)
    what = in_words(place)
    text = f"paused {what}" if done.new_pauses else f"nothing to do: {what} is paused"
    if done.workers_finishing:
        have = "has" if done.workers_finishing == 1 else "have"
        partitions = quantity(done.workers_finishing, "partition")
        text += f"\n{partitions} still {have} a worker; it goes when its batch is done"
    answer(args, text, **asdict(done))
    return 0
