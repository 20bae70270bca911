"""The `resume` command: let what was paused continue."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from gapless.cli.context import open_connection
from gapless.cli.parser import add_json
from gapless.cli.place import add_range, in_words, place_of
from gapless.cli.screen import answer
from gapless.ops.control import resume

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
    place = place_of(args)
    place.require_whole()
    with open_connection(args, "resume") as conn:
        done = resume(conn, place)
    what = in_words(place)
    text = f"resumed {what}" if done.ended_pauses else f"nothing to do: {what} is not paused"
    answer(args, text, **asdict(done))
    return 0
