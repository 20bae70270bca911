"""The verbs of `gapless dlq` and their options."""

from __future__ import annotations

import argparse

from gapless.cli.dlq.change import discard_chosen, redrive_chosen
from gapless.cli.dlq.filters import add_filters
from gapless.cli.dlq.show import print_list, print_one
from gapless.cli.dlq.transfer import export, import_
from gapless.cli.parser import Parser, add_confirm, add_limit, add_verb
from gapless.cli.place import event_place
from gapless.ops.dlq.find import OPEN

EXAMPLES = """\
A unit is what was published together: it is shown, redriven and discarded as a whole. PLACE is
GROUP/TOPIC/PARTITION@OFFSET of any of its events.

examples:
  gapless dlq list --group billing --error "division by zero"
  gapless dlq show billing/orders/3@17
  gapless dlq redrive billing/orders/3@17
  gapless dlq redrive --group billing --since 2026-03-01T12:00Z --yes
  gapless dlq redrive --since 2h --error "does not exist" --dry-run
  gapless dlq discard billing/orders/3@17 --reason "test data"
  gapless dlq export --group billing > letters.jsonl
"""


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    listing = add_verb(verbs, "list", print_list, "list the newest units (also without a verb)")
    add_filters(listing, states=OPEN)
    add_limit(listing, 20, "at most N, newest failure first")
    about = "show one with payload, error and what waits behind it"
    showing = add_verb(verbs, "show", print_one, about)
    showing.add_argument("place", type=event_place, metavar="PLACE", help="as in the list")
    about = "have units handled again, in order, once"
    _add_choice(add_verb(verbs, "redrive", redrive_chosen, about), states=("dead",))
    about = "give units up; what is parked behind follows"
    discarding = add_verb(verbs, "discard", discard_chosen, about)
    _add_choice(discarding, states=("dead",))
    discarding.add_argument("--reason", required=True, metavar="TEXT", help="for the record")
    _add_transfers(verbs)


def _add_choice(parser: argparse.ArgumentParser, *, states: tuple[str, ...]) -> None:
    parser.add_argument(
        "places", type=event_place, nargs="*", metavar="PLACE", help="these, at once"
    )
    add_filters(parser, states=states)
    parser.add_argument("--all", action="store_true", help=f"all that are {states[0]}")
    add_confirm(parser, "do it, for a filter or --all")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")


def _add_transfers(verbs: argparse._SubParsersAction[Parser]) -> None:
    exporting = verbs.add_parser("export", help="write units as JSON lines")
    exporting.set_defaults(act=export)
    exporting.add_argument("file", nargs="?", default="-", help="a new file (default: - is stdout)")
    add_filters(exporting, states=OPEN)
    importing = add_verb(verbs, "import", import_, "put exported units back, mended or not")
    importing.add_argument("file", nargs="?", default="-", help="JSON lines (default: - is stdin)")
    importing.add_argument(
        "--publish", action="store_true", help="publish their events anew instead, for all groups"
    )
    importing.add_argument("--dry-run", action="store_true", help="only read and check the lines")
