"""The `classic` command: what programs that watch the classic tables still see."""

from __future__ import annotations

import argparse

from gapless.cli.context import open_connection, show_found
from gapless.cli.parser import Parser, add_verb
from gapless.cli.screen import answer
from gapless.ops.classic import (
    CLASSIC_CHANNEL,
    CLASSIC_VIEW,
    ClassicInfo,
    hide_classic,
    list_classic,
    notify_classic,
    show_classic,
    silence_classic,
)

EXAMPLES = """\
Each classic name and its successor: docs/classic.md.

examples:
  gapless classic show billing
  gapless classic show billing/orders --as public.places_of_groups
  gapless classic notify orders
  gapless classic
  gapless classic hide billing
  gapless classic silence orders
"""


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    add_verb(verbs, "list", _list, "list what is kept for them (also without a verb)")
    about = "show a group's offsets in a view, as the classic consumer_offsets did"
    showing = add_verb(verbs, "show", _show, about)
    showing.add_argument("group", help="GROUP, or GROUP/TOPIC where it has several")
    showing.add_argument(
        "--as", dest="view", metavar="VIEW", default=CLASSIC_VIEW, help="default: %(default)s"
    )
    hiding = add_verb(verbs, "hide", _hide, "show a group's offsets no more")
    hiding.add_argument("group", help="GROUP, or GROUP/TOPIC")
    about = "NOTIFY a channel when events of a topic have got their offsets"
    notifying = add_verb(verbs, "notify", _notify, about)
    notifying.add_argument("topic")
    notifying.add_argument("--channel", default=CLASSIC_CHANNEL, help="default: %(default)s")
    add_verb(verbs, "silence", _silence, "announce a topic no more").add_argument("topic")


def _list(args: argparse.Namespace) -> int:
    hint = "nothing is kept for programs of the classic design: gapless classic show GROUP"
    return show_found(args, "classic", ClassicInfo, list_classic, hint)


def _show(args: argparse.Namespace) -> int:
    group, topic = _place(args.group)
    with open_connection(args, "classic") as conn:
        changed = show_classic(conn, group, topic, view=args.view)
    text = f"{args.view} shows the offsets of {args.group}"
    answer(args, _or_nothing(changed, text), group=args.group, view=args.view, changed=changed)
    return 0


def _hide(args: argparse.Namespace) -> int:
    group, topic = _place(args.group)
    with open_connection(args, "classic") as conn:
        changed = hide_classic(conn, group, topic)
    text = f"the offsets of {args.group} are shown under no classic name"
    answer(args, _or_nothing(changed, text), group=args.group, changed=changed)
    return 0


def _notify(args: argparse.Namespace) -> int:
    with open_connection(args, "classic") as conn:
        changed = notify_classic(conn, args.topic, channel=args.channel)
    text = f"{args.channel} is notified when events of {args.topic} have got their offsets"
    words = {"topic": args.topic, "channel": args.channel, "changed": changed}
    answer(args, _or_nothing(changed, text), **words)
    return 0


def _silence(args: argparse.Namespace) -> int:
    with open_connection(args, "classic") as conn:
        changed = silence_classic(conn, args.topic)
    text = f"events of {args.topic} are announced on no classic channel"
    answer(args, _or_nothing(changed, text), topic=args.topic, changed=changed)
    return 0


def _place(text: str) -> tuple[str, str | None]:
    group, _, topic = text.partition("/")
    return group, topic or None


def _or_nothing(changed: object, text: str) -> str:
    return text if changed else f"nothing to do: {text}"
