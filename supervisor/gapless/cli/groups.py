"""The `groups` command: list consumer groups, create one, show the lag of one."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from gapless.cli.context import open_connection, show_found
from gapless.cli.parser import Parser, add_confirm, add_verb
from gapless.cli.place import group_place, place_of, point
from gapless.cli.screen import answer, remark
from gapless.ops.groups import (
    GroupInfo,
    GroupPartition,
    create_group,
    list_groups,
    remove_group,
    show_group,
)
from gapless.ops.place import EARLIEST
from gapless.ops.text import quantity

EXAMPLES = """\
examples:
  gapless groups
  gapless groups show billing
  gapless groups show billing/orders
  gapless groups create billing orders --start latest
  gapless groups create audit orders --start 2026-03-01T00:00Z
"""


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    add_verb(verbs, "list", _list, "list all groups (also without a verb)")
    about = "make a group known before its first `gapless run`; repeat freely"
    creation = add_verb(verbs, "create", _create, about)
    creation.add_argument("group", help="letters, digits, dots, dashes and underscores")
    creation.add_argument("topic")
    creation.add_argument(
        "--start",
        "--from",
        dest="start",
        type=point,
        metavar="PLACE",
        default=EARLIEST,
        help="where it begins: earliest (default), latest, an offset, a time",
    )
    creation.add_argument(
        "--mode",
        choices=("ordered", "queue"),
        help="queue: any number of workers share a partition, in no order (default: ordered)",
    )
    about = "forget a group, its offsets and dead letters; without --yes only say what"
    removal = add_verb(verbs, "remove", _remove, about)
    removal.add_argument("group")
    add_confirm(removal)
    showing = add_verb(verbs, "show", _show, "show offsets, lag and owner of each partition")
    showing.add_argument("place", type=group_place, metavar="GROUP[/TOPIC]")
    showing.add_argument("--topic", help="only this one of its topics")
    showing.set_defaults(partition=None)


def _list(args: argparse.Namespace) -> int:
    hint = "no group yet: gapless run makes them, and so does gapless groups create GROUP TOPIC"
    return show_found(args, "groups", GroupInfo, list_groups, hint)


def _create(args: argparse.Namespace) -> int:
    with open_connection(args, "groups") as conn:
        made = create_group(conn, args.group, args.topic, start=args.start, mode=args.mode)
    name = f"group {made.group} of topic {made.topic}"
    start = str(made.start) if made.start else None
    text = f"created {name}, from {start}" if made.created else f"nothing to do: there is a {name}"
    answer(args, text, **{**asdict(made), "start": start})
    return 0


def _remove(args: argparse.Namespace) -> int:
    with open_connection(args, "groups") as conn:
        done = remove_group(conn, args.group, dry_run=not args.apply)
    what = f"group {done.group} of {', '.join(done.topics)}"
    letters = quantity(done.dead_letters, "dead letter")
    if not done.removed:
        remark(f"nothing was changed: {what} has {letters}; --yes removes it")
    if done.removed or args.json:
        answer(args, f"removed {what}, and {letters}", **asdict(done))
    return 0


def _show(args: argparse.Namespace) -> int:
    place = place_of(args)
    return show_found(args, "groups", GroupPartition, lambda conn: show_group(conn, place))
