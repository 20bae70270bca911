"""The `subscriptions` command: list, add, renew, resume or remove subscriptions of a group."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, opt
from gapless.cli.parser import age_s
from gapless.cli.place import of_topics
from gapless.cli.screen import answer, listed
from gapless.errors import RefusedError
from gapless.features.filters.asked import json_object
from gapless.features.filters.subscriptions import (
    list_subscriptions,
    renew_subscription,
    resume_subscription,
    subscribe,
    unsubscribe,
)
from gapless.ops.text import quantity

EXAMPLES = """\
A group with subscriptions takes the events that one of them matches; see docs/use/subscriptions.md.

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
_PLACE = of_topics("of this one of its topics")
command = Command("subscriptions")
_ROUTE = "POST /v1/groups/{group}/subscriptions/{verb} changeSubscription"


@command.verb(
    "list the subscriptions of a group",
    _PLACE,
    route="GET /v1/groups/{group}/subscriptions subscriptions",
)
def _list(conn: Conn, args: Args) -> int:
    hint = f"{args.place} has no subscriptions: gapless subscriptions add {args.place} NAME"
    return listed(args, list_subscriptions(conn, args.place), hint)


@command.verb(
    "let the group take what matches, too; one of that name is replaced",
    _PLACE,
    opt("name", "of 1 to 200 characters"),
    opt(
        "--match JSON",
        'params that equal parts of an event: \'{"customer": "$.customer_id"}\'',
        json_object,
        default={},
    ),
    opt("--where JSONPATH", "payloads for which it holds, such as '$.total > $min'"),
    opt("--params JSON", "values, '{\"customer\": 17}'", json_object, default={}),
    opt(
        "--expires AGE",
        "gone when it is not renewed or added again for so long: 12h, 30d (default: never)",
        age_s,
        dest="expires_after_s",
    ),
    opt(
        "--sql-condition --condition SQL",
        "an expression over e and s: \"e.payload ->> 'country' = s.params ->> 'country'\"",
    ),
    route="POST /v1/groups/{group}/subscriptions addSubscription",
)
def _add(conn: Conn, args: Args) -> int:
    done = subscribe(conn, **args.given)
    name = f"group {done.group} of topic {done.topic} takes the events of subscription {done.name}"
    return answer(args, name if done.changed else f"nothing to do: {name} already", done)


@command.verb(
    "ask one again that was stopped, for its condition raised or was slow",
    _PLACE,
    "name",
    route=_ROUTE,
)
def _resume(conn: Conn, args: Args) -> int:
    units = resume_subscription(conn, args.place, args.name)
    name = f"subscription {args.name} of {args.place}"
    text = f"nothing to do: {name} is not stopped"
    if units is not None:
        text = f"resumed {name}: {quantity(units, 'unit')} that it missed will be handled for it"
    what = {"group": args.place.group, "name": args.name, "resumed": units is not None}
    return answer(args, text, what, units=units or 0)


@command.verb("begin the time of one that expires anew", _PLACE, "name", route=_ROUTE)
def _renew(conn: Conn, args: Args) -> int:
    if not renew_subscription(conn, args.place, args.name):
        raise RefusedError(
            f"{args.place} has no subscription {args.name}: gapless subscriptions add makes it",
            sqlstate="GL404",
        )
    text = f"renewed subscription {args.name} of {args.place}"
    return answer(args, text, group=args.place.group, name=args.name, renewed=True)


@command.verb(
    "match nothing more for it; a group without any takes nothing", _PLACE, "name", route=_ROUTE
)
def _remove(conn: Conn, args: Args) -> int:
    done = unsubscribe(conn, args.place, args.name)
    there = f"subscription {done.name} of group {done.group}, topic {done.topic}"
    text = f"removed {there}" if done.changed else f"nothing to do: there is no {there}"
    return answer(args, text, done)
