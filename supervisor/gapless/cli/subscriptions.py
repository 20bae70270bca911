"""The `subscriptions` command: list those of a group, add, renew, resume or remove one."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from gapless.cli.context import open_connection, show_found
from gapless.cli.filters import json_object
from gapless.cli.parser import Parser, add_verb
from gapless.cli.place import group_place, place_of
from gapless.cli.screen import answer
from gapless.errors import RefusedError
from gapless.ops.subscriptions import (
    SubscriptionInfo,
    list_subscriptions,
    renew_subscription,
    resume_subscription,
    subscribe,
    unsubscribe,
)
from gapless.ops.text import quantity, whole_seconds

EXAMPLES = """\
A group with subscriptions takes the events that one of them matches; see docs/subscriptions.md.

examples:
  gapless subscriptions add mails/orders ann --match '{"id": "$.customer_id"}' --params '{"id": 17}'
  gapless subscriptions add mails ben --where '$.total > $min' --params '{"min": 1000}'
  gapless subscriptions add mails cid --where '$.total > 0' --expires 30d
  gapless subscriptions renew mails cid
  gapless subscriptions add mails dan --condition "e.payload ->> 'to' = s.name"
  gapless subscriptions resume mails dan
  gapless subscriptions list mails
  gapless subscriptions remove mails ann
"""


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    _add_place(add_verb(verbs, "list", _list, "list the subscriptions of a group"))
    about = "let the group take what matches, too; one of that name is replaced"
    adding = add_verb(verbs, "add", _add, about)
    _add_place(adding)
    adding.add_argument("name", help="of 1 to 200 characters")
    adding.add_argument(
        "--match",
        type=json_object,
        default={},
        metavar="JSON",
        help='which params equal which part of an event: \'{"customer": "$.customer_id"}\'',
    )
    adding.add_argument(
        "--where", metavar="JSONPATH", help="payloads for which it holds, such as '$.total > $min'"
    )
    adding.add_argument(
        "--params",
        type=json_object,
        default={},
        metavar="JSON",
        help="values, '{\"customer\": 17}'",
    )
    adding.add_argument(
        "--expires",
        type=_age_s,
        metavar="AGE",
        help="gone when nobody renews it, or adds it again, for so long: 12h, 30d (default: never)",
    )
    adding.add_argument(
        "--sql-condition",
        "--condition",
        metavar="SQL",
        help="an expression over e and s: \"e.payload ->> 'country' = s.params ->> 'country'\"",
    )
    about = "ask one again that was stopped, for its condition raised or was slow"
    resuming = add_verb(verbs, "resume", _resume, about)
    _add_place(resuming)
    resuming.add_argument("name")
    renewal = add_verb(verbs, "renew", _renew, "begin the time of one that expires anew")
    _add_place(renewal)
    renewal.add_argument("name")
    about = "match nothing more for it; a group without any takes nothing"
    removal = add_verb(verbs, "remove", _remove, about)
    _add_place(removal)
    removal.add_argument("name")


def _add_place(parser: Parser) -> None:
    parser.add_argument("place", type=group_place, metavar="GROUP[/TOPIC]")
    parser.add_argument("--topic", help="of this one of its topics")
    parser.set_defaults(partition=None)


def _list(args: argparse.Namespace) -> int:
    place = place_of(args)
    hint = f"{place} has no subscriptions: gapless subscriptions add {place} NAME"
    return show_found(
        args, "subscriptions", SubscriptionInfo, lambda conn: list_subscriptions(conn, place), hint
    )


def _add(args: argparse.Namespace) -> int:
    place = place_of(args)
    with open_connection(args, "subscriptions") as conn:
        done = subscribe(
            *(conn, place, args.name),
            match=args.match,
            where=args.where,
            params=args.params,
            expires_after_s=args.expires,
            sql_condition=args.sql_condition,
        )
    name = f"group {done.group} of topic {done.topic} takes what subscription {done.name} matches"
    answer(args, name if done.changed else f"nothing to do: {name} already", **asdict(done))
    return 0


def _renew(args: argparse.Namespace) -> int:
    place = place_of(args)
    with open_connection(args, "subscriptions") as conn:
        if not renew_subscription(conn, place, args.name):
            raise RefusedError(
                f"{place} has no subscription {args.name}: gapless subscriptions add makes it",
                sqlstate="GL404",
            )
    said = {"group": place.group, "name": args.name, "renewed": True}
    answer(args, f"renewed subscription {args.name} of {place}", **said)
    return 0


def _resume(args: argparse.Namespace) -> int:
    place = place_of(args)
    with open_connection(args, "subscriptions") as conn:
        units = resume_subscription(conn, place, args.name)
    name = f"subscription {args.name} of {place}"
    text = f"nothing to do: {name} is not stopped"
    if units is not None:
        text = f"resumed {name}: {quantity(units, 'unit')} that it missed will be handled for it"
    said = {"group": place.group, "name": args.name, "resumed": units is not None}
    answer(args, text, **said, units=units or 0)
    return 0


def _remove(args: argparse.Namespace) -> int:
    with open_connection(args, "subscriptions") as conn:
        done = unsubscribe(conn, place_of(args), args.name)
    there = f"subscription {done.name} of group {done.group}, topic {done.topic}"
    text = f"removed {there}" if done.changed else f"nothing to do: there is no {there}"
    answer(args, text, **asdict(done))
    return 0


def _age_s(text: str) -> int:
    seconds = whole_seconds(text)
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no age such as 12h or 30d")
    return seconds
