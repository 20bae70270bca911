"""The `classic` command: views and channels for programs that watch the classic tables."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, opt
from gapless.cli.screen import changed, listed
from gapless.features.classic.ops import (
    CLASSIC_CHANNEL,
    CLASSIC_VIEW,
    hide_classic,
    list_classic,
    notify_classic,
    show_classic,
    silence_classic,
)

EXAMPLES = """\
Each classic name and its successor: docs/use/classic.md.

examples:
  gapless classic show billing
  gapless classic show billing/orders --as public.places_of_groups
  gapless classic notify orders
  gapless classic
  gapless classic hide billing
  gapless classic silence orders
"""
command = Command("classic")


@command.verb("list the names kept for them (also without a verb)")
def _list(conn: Conn, args: Args) -> int:
    hint = "nothing is kept for programs of the classic design: gapless classic show GROUP"
    return listed(args, list_classic(conn), hint)


@command.verb(
    "show the offsets of GROUP, or GROUP/TOPIC, in a view, as the classic consumer_offsets did",
    "group",
    opt("--as VIEW", f"default: {CLASSIC_VIEW}", dest="view", default=CLASSIC_VIEW),
)
def _show(conn: Conn, args: Args) -> int:
    return changed(args, show_classic(conn, **args.given), "{view} shows the offsets of {group}")


@command.verb("show the offsets of GROUP, or GROUP/TOPIC, no more", "group")
def _hide(conn: Conn, args: Args) -> int:
    done = "the offsets of {group} are shown under no classic name"
    return changed(args, hide_classic(conn, args.group), done)


@command.verb(
    "NOTIFY a channel when events of a topic have got their offsets",
    "topic",
    opt("--channel NAME", f"default: {CLASSIC_CHANNEL}", default=CLASSIC_CHANNEL),
)
def _notify(conn: Conn, args: Args) -> int:
    done = "{channel} is notified when events of {topic} have got their offsets"
    return changed(args, notify_classic(conn, **args.given), done)


@command.verb("announce a topic no more", "topic")
def _silence(conn: Conn, args: Args) -> int:
    done = "events of {topic} are announced on no classic channel"
    return changed(args, silence_classic(conn, args.topic), done)
