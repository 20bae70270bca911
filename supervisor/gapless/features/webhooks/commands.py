"""The `webhooks` command: endpoints that are called with events."""

from __future__ import annotations

import argparse

from gapless.cli.declare import Args, Command, Conn, flag, limit, opt
from gapless.cli.parser import whole
from gapless.cli.place import argument
from gapless.cli.screen import answer, changed, listed
from gapless.features.filters.asked import FILTER, json_object
from gapless.features.webhooks.ops import (
    CONCURRENCY,
    ROWS_MAX,
    add_webhook,
    list_attempts,
    list_webhooks,
    pause_webhook,
    remove_webhook,
    replay_webhook,
    resume_webhook,
    try_webhook,
)
from gapless.ops.place import read_since
from gapless.ops.text import quantity

EXAMPLES = """\
A secret is given as its place, env:NAME or file:/PATH, for gapless run --webhooks
to read. A webhook is a consumer group, webhook-NAME: its lag and letters are those.

examples:
  gapless webhooks add shop orders https://shop.example/hooks --secret env:SHOP_SECRET
  gapless webhooks add paid orders https://pay.example/ --secret env:PAY_SECRET --type 'order.*'
  gapless webhooks
  gapless webhooks test shop
  gapless webhooks attempts shop --failed
  gapless run --webhooks
  gapless webhooks replay shop --since 2h
"""
command = Command("webhooks")


def _delays(text: str) -> list[int]:
    words = text.split(",") if text else []
    if not all(word.isascii() and word.isdigit() and len(word) < 9 for word in words):
        raise argparse.ArgumentTypeError(f"{text[:100]!r}: whole seconds with commas, such as 5,60")
    return [int(word) for word in words]


@command.verb(
    "list webhooks by name (also without a verb)",
    opt("--name NAME", "only this one"),
    opt("--after NAME", "only names behind this one: the next page"),
    limit(ROWS_MAX, "rows, at most", ROWS_MAX),
    route="GET /v1/webhooks webhooks",
)
def _list(conn: Conn, args: Args) -> int:
    hint = "no webhook yet: gapless webhooks add NAME TOPIC URL --secret env:NAME"
    if args.name or args.after:
        hint = "no such webhook"
    return listed(args, list_webhooks(conn, **args.given), hint)


@command.verb(
    "list the newest requests to an endpoint, with their answers",
    "name",
    flag("--failed", "only those without an answer of 2xx"),
    opt("--before ID", "with a smaller ID: the next page", whole(1, 2**62)),
    limit(100, "rows, at most", ROWS_MAX),
    route="GET /v1/webhooks/{name}/attempts webhookAttempts",
)
def _attempts(conn: Conn, args: Args) -> int:
    hint = f"{args.name}: no such request in 24 hours; new ones are listed after some seconds"
    return listed(args, list_attempts(conn, **args.given), hint)


@command.verb(
    "add a webhook, or change the one of that name",
    opt("name", "letters, digits, dashes and underscores"),
    "topic",
    opt("url", "https://host/path"),
    opt(
        "--secret WHERE",
        "env:NAME or file:/PATH, read by the deliverer; twice while one replaces the other",
        action="append",
        dest="secrets",
        required=True,
    ),
    *FILTER,
    flag(
        "--shared",
        "let it share one group, and one worker, with others of its topic: for thousands of them",
    ),
    opt(
        "--match JSON",
        'if shared, params that equal parts of an event: \'{"shop": "$.shop_id"}\'',
        json_object,
    ),
    opt("--sql-condition --condition SQL", "if shared, an expression, as of gapless subscriptions"),
    opt("--rate N", "at most N requests a second", float),
    opt(
        "--concurrency N",
        f"at most N requests at a time (default: {CONCURRENCY})",
        int,
    ),
    flag(
        "--keep-order", "let later events of a key wait behind one that failed", dest="keeps_order"
    ),
    opt(
        "--retry SECONDS",
        "until the next attempts, such as 5,60,300 (default: nine within three days)",
        _delays,
        dest="retry_delays_s",
    ),
    flag("--allow-http", "let the URL begin with http://"),
    opt(
        "--start",
        "where a new one begins (default: latest, with events published from now on)",
        choices=("latest", "earliest"),
        default="latest",
    ),
)
def _add(conn: Conn, args: Args) -> int:
    is_new = add_webhook(conn, **args.given)
    text = f"webhook {args.name} is {'called with' if is_new else 'changed; it gets'} {args.topic}"
    return answer(args, text, name=args.name, topic=args.topic, created=is_new)


@command.verb("send one test event to an endpoint, from here", "name")
def _test(conn: Conn, args: Args) -> int:
    tested = try_webhook(conn, args.name, args.loaded.settings)
    text = f"webhook {args.name} answered {tested.status}" if tested.taken else str(tested.error)
    answer(args, text, tested)
    return 0 if tested.taken else 1


@command.verb(
    "let an endpoint rest: its place is kept",
    "name",
    opt("--reason TEXT", "for people (gapless webhooks)"),
    route="POST /v1/webhooks/{name}/pause pauseWebhook",
)
def _pause(conn: Conn, args: Args) -> int:
    done = pause_webhook(conn, **args.given)
    return changed(args, done, "paused {name}", "{name} is paused")


@command.verb(
    "let an endpoint continue where it was; one that failed is tried at once",
    "name",
    route="POST /v1/webhooks/{name}/resume resumeWebhook",
)
def _resume(conn: Conn, args: Args) -> int:
    return changed(args, resume_webhook(conn, args.name), "resumed {name}", "{name} is not paused")


@command.verb(
    "send an endpoint that shares a group its events again",
    "name",
    opt(
        "--since TS|AGE",
        "events published then or later, or at most so long ago: 15m, 12h, 7d",
        argument(read_since),
        required=True,
    ),
    flag("--dry-run", "only say how much that is"),
    route="POST /v1/webhooks/{name}/replay replayWebhook",
)
def _replay(conn: Conn, args: Args) -> int:
    units = replay_webhook(conn, args.name, args.since, dry_run=args.dry_run)
    if args.dry_run:
        text = f"{args.name} would be sent {quantity(units, 'unit')} again"
        return answer(args, text, name=args.name, units=units, dry_run=True)
    text = f"{args.name} is sent {quantity(units, 'unit')} again"
    return answer(args, text, name=args.name, units=units)


@command.verb("call an endpoint no more: its place and its dead letters go", "name")
def _remove(conn: Conn, args: Args) -> int:
    return changed(args, remove_webhook(conn, args.name), "removed {name}", "{name} is no webhook")
