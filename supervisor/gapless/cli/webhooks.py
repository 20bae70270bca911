"""The `webhooks` command: endpoints that are called with events."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from gapless.cli.context import changer, load_settings, open_connection, show_found
from gapless.cli.filters import add_filter, filter_options
from gapless.cli.parser import Parser, add_verb
from gapless.cli.screen import answer
from gapless.ops.webhooks import (
    CONCURRENCY,
    WebhookInfo,
    add_webhook,
    list_webhooks,
    pause_webhook,
    remove_webhook,
    resume_webhook,
    try_webhook,
)

EXAMPLES = """\
A secret is given by where whoever delivers finds it: env:NAME or file:/PATH. gapless run --webhooks
is who delivers. A webhook is a consumer group, webhook-NAME: its lag and letters are those.

examples:
  gapless webhooks add shop orders https://shop.example/hooks --secret env:SHOP_SECRET
  gapless webhooks add paid orders https://pay.example/ --secret env:PAY_SECRET --type 'order.*'
  gapless webhooks
  gapless webhooks test shop
  gapless run --webhooks
"""


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    add_verb(verbs, "list", _list, "list all webhooks (also without a verb)")
    about = "add a webhook, or change the one of that name"
    _declare_add(add_verb(verbs, "add", _add, about))
    testing = add_verb(verbs, "test", _test, "send one test event to an endpoint, from here")
    testing.add_argument("name")
    for name, (summary, act) in _VERBS.items():
        add_verb(verbs, name, act, summary).add_argument("name")


def _declare_add(adding: Parser) -> None:
    adding.add_argument("name", help="letters, digits, dashes and underscores")
    adding.add_argument("topic")
    adding.add_argument("url", help="https://host/path")
    adding.add_argument(
        "--secret",
        action="append",
        dest="secrets",
        required=True,
        metavar="WHERE",
        help="env:NAME or file:/PATH of whoever delivers; twice while one replaces the other",
    )
    add_filter(adding)
    adding.add_argument("--rate", type=float, metavar="N", help="at most N requests a second")
    adding.add_argument(
        "--concurrency",
        type=int,
        default=CONCURRENCY,
        metavar="N",
        help=f"at most N requests at a time (default: {CONCURRENCY})",
    )
    adding.add_argument(
        "--keep-order",
        action="store_true",
        dest="keeps_order",
        help="let later events of a key wait behind one that failed",
    )
    adding.add_argument(
        "--retry",
        type=_delays,
        dest="retry_delays_s",
        metavar="SECONDS",
        help="until the next attempts, such as 5,60,300 (default: nine within three days)",
    )
    adding.add_argument("--allow-http", action="store_true", help="let the URL begin with http://")
    adding.add_argument(
        "--start",
        choices=("latest", "earliest"),
        default="latest",
        help="where a new one begins (default: latest, with what is published from now on)",
    )


def _delays(text: str) -> list[int]:
    words = text.split(",") if text else []
    if not all(word.isascii() and word.isdigit() and len(word) < 9 for word in words):
        raise argparse.ArgumentTypeError(f"{text[:100]!r}: whole seconds with commas, such as 5,60")
    return [int(word) for word in words]


def _list(args: argparse.Namespace) -> int:
    hint = "no webhook yet: gapless webhooks add NAME TOPIC URL --secret env:NAME"
    return show_found(args, "webhooks", WebhookInfo, list_webhooks, hint)


def _add(args: argparse.Namespace) -> int:
    options = {
        name: getattr(args, name)
        for name in (
            *("secrets", "rate", "concurrency", "keeps_order", "retry_delays_s"),
            *("allow_http", "start"),
        )
    }
    with open_connection(args, "webhooks") as conn:
        is_new = add_webhook(
            conn, args.name, args.topic, args.url, **options, **filter_options(args)
        )
    text = f"webhook {args.name} is {'called with' if is_new else 'changed; it gets'} {args.topic}"
    answer(args, text, name=args.name, topic=args.topic, created=is_new)
    return 0


def _test(args: argparse.Namespace) -> int:
    settings = load_settings(args)
    with open_connection(args, "webhooks", settings) as conn:
        tested = try_webhook(conn, args.name, settings)
    text = f"webhook {args.name} answered {tested.status}" if tested.taken else str(tested.error)
    answer(
        args,
        text,
        name=tested.name,
        taken=tested.taken,
        status=tested.status,
        error=tested.error,
    )
    return 0 if tested.taken else 1


_VERBS: dict[str, tuple[str, Callable[[argparse.Namespace], int]]] = {
    "pause": (
        "let an endpoint rest: its place is kept",
        changer("webhooks", pause_webhook, "paused", "is paused"),
    ),
    "resume": (
        "let an endpoint continue where it was; one that failed is tried at once",
        changer("webhooks", resume_webhook, "resumed", "is not paused"),
    ),
    "remove": (
        "call an endpoint no more: its place and its dead letters go",
        changer("webhooks", remove_webhook, "removed", "is no webhook"),
    ),
}
