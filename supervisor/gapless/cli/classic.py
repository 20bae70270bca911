"""The `classic` command: what programs that watch the classic tables still see."""

from __future__ import annotations

from gapless import ops
from gapless.cli.declare import Args, Command, Conn, opt
from gapless.cli.screen import answer, listed
from gapless.ops.classic import CLASSIC_CHANNEL, CLASSIC_VIEW

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
command = Command("classic")


@command.verb("list what is kept for them (also without a verb)")
def _list(conn: Conn, args: Args) -> int:
    hint = "nothing is kept for programs of the classic design: gapless classic show GROUP"
    return listed(args, ops.list_classic(conn), hint)


@command.verb(
    "show the offsets of GROUP, or GROUP/TOPIC, in a view, as the classic consumer_offsets did",
    "group",
    opt("--as VIEW", f"default: {CLASSIC_VIEW}", dest="view", default=CLASSIC_VIEW),
)
def _show(conn: Conn, args: Args) -> int:
    group, topic = _place(args.group)
    changed = ops.show_classic(conn, group, topic, view=args.view)
    text = f"{args.view} shows the offsets of {args.group}"
    what = {"group": args.group, "view": args.view, "changed": changed}
    return answer(args, _or_nothing(changed, text), what)


@command.verb("show the offsets of GROUP, or GROUP/TOPIC, no more", "group")
def _hide(conn: Conn, args: Args) -> int:
    group, topic = _place(args.group)
    changed = ops.hide_classic(conn, group, topic)
    text = f"the offsets of {args.group} are shown under no classic name"
    return answer(args, _or_nothing(changed, text), group=args.group, changed=changed)


@command.verb(
    "NOTIFY a channel when events of a topic have got their offsets",
    "topic",
    opt("--channel NAME", f"default: {CLASSIC_CHANNEL}", default=CLASSIC_CHANNEL),
)
def _notify(conn: Conn, args: Args) -> int:
    changed = ops.notify_classic(conn, args.topic, channel=args.channel)
    text = f"{args.channel} is notified when events of {args.topic} have got their offsets"
    what = {"topic": args.topic, "channel": args.channel, "changed": changed}
    return answer(args, _or_nothing(changed, text), what)


@command.verb("announce a topic no more", "topic")
def _silence(conn: Conn, args: Args) -> int:
    changed = ops.silence_classic(conn, args.topic)
    text = f"events of {args.topic} are announced on no classic channel"
    return answer(args, _or_nothing(changed, text), topic=args.topic, changed=changed)


def _place(text: str) -> tuple[str, str | None]:
    group, _, topic = text.partition("/")
    return group, topic or None


def _or_nothing(changed: object, text: str) -> str:
    return text if changed else f"nothing to do: {text}"
