"""The `skip` command: let a group pass a hole in the log."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass

from gapless.cli.context import open_connection
from gapless.cli.parser import add_json
from gapless.cli.place import event_place
from gapless.cli.screen import tell
from gapless.db.queries import query
from gapless.ops.rows import rows
from gapless.ops.text import count

HELP = "let a group pass a hole: what is missing from the log where it stands"
EXAMPLES = """\
A hole is what somebody deleted from the log by hand; gapless status names the offset at which a
group has stopped. Restore what is missing if you can: then it goes on by itself. What is there of a
unit that the hole tore is passed as well, for a unit is handled as a whole or not at all.
gapless.audit keeps what was passed.

example:
  gapless skip billing/orders/3@17
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What a group has passed: offsets, inclusive; how many of them were missing, and all."""

    group: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    missing: int
    passed: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("place", type=event_place, metavar="GROUP/TOPIC/PARTITION@OFFSET")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Pass the hole, or refuse because there is none."""
    where = args.place
    params = {
        "group": where.group,
        "topic": where.topic,
        "partition": where.partition,
        "offset": where.offset,
    }
    with open_connection(args, "skip") as conn:
        (done,) = rows(conn, Skipped, query("control", "skip_hole"), **params)
    whole = done.passed - done.missing
    torn = f", and {count(whole, 'event')} of the units that they tore" if whole else ""
    tell(
        args,
        f"{done.group}/{done.topic}/{done.partition} passed offsets {done.first_offset} to "
        f"{done.last_offset}: {count(done.missing, 'event')} missing{torn}",
        **asdict(done),
    )
    return 0
