"""The `later` command: events that wait for their time."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from uuid import UUID

from gapless.cli.context import open_connection, show_found
from gapless.cli.parser import Parser, add_limit, add_verb, whole
from gapless.cli.screen import say
from gapless.errors import UsageError
from gapless.ops.later import Cancelled, LaterEvent, cancel_later, list_later
from gapless.ops.text import json_text

EXAMPLES = """\
What is published with --at or --in (deliver_at, deliver_in) waits here until it gets its offset.

examples:
  gapless later
  gapless later list --topic mails
  gapless later cancel 17 18
  gapless later cancel --transaction-id 00000000-0000-8000-8000-0000000002f1
"""
_ID_MAX = 2**63 - 1
_CANCELLED_MAX = 1_000_000


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    about = "list what waits, the next first (also without a verb)"
    listing = add_verb(verbs, "list", _list, about)
    listing.add_argument("--topic", help="of this topic only")
    listing.add_argument("--transaction-id", type=_uuid, metavar="UUID", help="of this one only")
    add_limit(listing, 100)
    about = "take events back before they are delivered"
    cancelling = add_verb(verbs, "cancel", _cancel, about)
    cancelling.add_argument("id", nargs="*", type=whole(1, _ID_MAX), help="its SCHEDULED-ID")
    cancelling.add_argument(
        "--transaction-id", type=_uuid, metavar="UUID", help="all that waits of this one"
    )


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a UUID") from None


def _list(args: argparse.Namespace) -> int:
    which = {"topic": args.topic, "transaction_id": args.transaction_id, "events_max": args.limit}
    find = partial(list_later, **which)
    return show_found(args, "later", LaterEvent, find, "no event waits for its time")


def _cancel(args: argparse.Namespace) -> int:
    if bool(args.id) == (args.transaction_id is not None):
        raise UsageError("give ids (gapless later lists them), or --transaction-id UUID")
    with open_connection(args, "later") as conn:
        ids = args.id or [
            each.scheduled_id
            for each in list_later(
                conn, transaction_id=args.transaction_id, events_max=_CANCELLED_MAX
            )
        ]
        done = cancel_later(conn, ids)
    if args.json:
        say(json_text([asdict(each) for each in done]))
        return 0
    for each in done:
        say(_in_words(each))
    if not done:
        say("nothing to do: no event of that transaction waits")
    return 0


def _in_words(done: Cancelled) -> str:
    if done.cancelled:
        return f"cancelled {done.scheduled_id}"
    return f"nothing to do: {done.scheduled_id} is in the log already, was cancelled, or never was"
