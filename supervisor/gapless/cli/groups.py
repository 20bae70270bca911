"""The `groups` command: list consumer groups, create one, show the lag of one."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from gapless.cli.context import open_connection, show_found
from gapless.cli.filters import add_filter, filter_options
from gapless.cli.parser import Parser, add_confirm, add_verb
from gapless.cli.place import group_place, place_of, point
from gapless.cli.screen import answer, remark
from gapless.errors import UsageError
from gapless.ops.expiry import GroupExpiry, list_expiries, set_expiry
from gapless.ops.filters import GroupFilter, clear_filter, list_filters, set_filter
from gapless.ops.groups import (
    GroupInfo,
    GroupPartition,
    create_group,
    list_groups,
    remove_group,
    show_group,
)
from gapless.ops.place import EARLIEST
from gapless.ops.text import age_text, quantity, whole_seconds

EXAMPLES = """\
examples:
  gapless groups
  gapless groups show billing
  gapless groups show billing/orders
  gapless groups create billing orders --start latest
  gapless groups create audit orders --start 2026-03-01T00:00Z
  gapless groups filter billing/orders --type 'order.*' --where '$.total > 5'
  gapless groups filter billing/orders --clear
  gapless groups expire trial --after 30d
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
    about = "show which events a group takes; set it, from the next claim on; or let it take all"
    filtering = add_verb(verbs, "filter", _filter, about)
    filtering.add_argument("place", type=group_place, metavar="GROUP[/TOPIC]")
    filtering.add_argument("--topic", help="of this one of its topics")
    filtering.set_defaults(partition=None)
    add_filter(filtering)
    filtering.add_argument("--clear", action="store_true", help="take all events again")
    about = "let a group be dropped when nobody uses it for long, or never; or show when it is"
    expiring = add_verb(verbs, "expire", _expire, about)
    expiring.add_argument("group")
    when = expiring.add_mutually_exclusive_group()
    when.add_argument("--after", metavar="AGE", help="no member and no claim for so long: 12h, 30d")
    when.add_argument("--never", action="store_true", help="keep it, as every other group")


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


def _filter(args: argparse.Namespace) -> int:
    place, wanted = place_of(args), filter_options(args)
    if args.clear and any(wanted.values()):
        raise UsageError("--clear and a filter: which of the two?")
    if not args.clear and not any(wanted.values()):
        hint = f"{place} takes all events: gapless groups filter {place} --type TYPE"
        return show_found(
            args, "groups", GroupFilter, lambda conn: list_filters(conn, place), empty=hint
        )
    with open_connection(args, "groups") as conn:
        done = clear_filter(conn, place) if args.clear else set_filter(conn, place, **wanted)
    name = f"group {done.group} of topic {done.topic}"
    takes = "takes all events" if args.clear else "takes what its filter keeps"
    text = f"{name} {takes}" if done.changed else f"nothing to do: {name} {takes} already"
    answer(args, text, **asdict(done))
    return 0


def _expire(args: argparse.Namespace) -> int:
    if args.after is None and not args.never:
        hint = f"group {args.group} never expires: gapless groups expire {args.group} --after AGE"
        return show_found(
            args, "groups", GroupExpiry, lambda conn: list_expiries(conn, args.group), empty=hint
        )
    after_s = None if args.never else whole_seconds(args.after)
    if after_s is None and not args.never:
        raise UsageError(f"--after {args.after!r}: a number with s, m, h or d, such as 12h or 30d")
    with open_connection(args, "groups") as conn:
        done = set_expiry(conn, args.group, after_s)
    when = "never expires"
    if after_s is not None:
        when = f"is dropped when nobody uses it for {age_text(after_s)}"
    text = f"group {done.group} {when}" if done.changed else f"nothing to do: it {when} already"
    answer(args, text, **asdict(done))
    return 0


def _show(args: argparse.Namespace) -> int:
    place = place_of(args)
    return show_found(args, "groups", GroupPartition, lambda conn: show_group(conn, place))
