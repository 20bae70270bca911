"""The `groups` command: list consumer groups, create one, show the lag of one."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, flag, one_of, opt, yes
from gapless.cli.place import of_topics, point
from gapless.cli.screen import answer, listed, remark, told
from gapless.errors import UsageError
from gapless.features.expiry.ops import list_expiries, set_expiry
from gapless.features.filters.asked import FILTER, filter_options
from gapless.features.filters.ops import clear_filter, list_filters, set_filter
from gapless.ops.groups import create_group, list_groups, remove_group, show_group
from gapless.ops.place import EARLIEST, read_age
from gapless.ops.text import quantity

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
command = Command("groups")


@command.verb(
    "list all groups (also without a verb)", shows_log=True, route="GET /v1/groups groups"
)
def _list(conn: Conn, args: Args) -> int:
    hint = "no group yet: gapless run makes them, and so does gapless groups create GROUP TOPIC"
    return listed(args, list_groups(conn), hint)


@command.verb(
    "make a group known before its first `gapless run`; repeat freely",
    opt("group", "letters, digits, dots, dashes and underscores"),
    "topic",
    opt(
        "--start --from PLACE",
        "where it begins: earliest (default), latest, latest-per-key, an offset, a time",
        point,
        dest="start",
        default=EARLIEST,
    ),
    opt(
        "--mode",
        "queue: any number of workers share a partition, in no order (default: ordered)",
        choices=("ordered", "queue"),
    ),
)
def _create(conn: Conn, args: Args) -> int:
    made = create_group(conn, **args.given)
    return told(args, made, start=str(made.start) if made.start else None)


@command.verb(
    "forget a group, its offsets and dead letters; without --yes only say what", "group", yes()
)
def _remove(conn: Conn, args: Args) -> int:
    done = remove_group(conn, args.group, dry_run=not args.apply)
    if not done.removed:
        what = f"group {done.group} of {', '.join(done.topics)}"
        letters = quantity(done.dead_letters, "dead letter")
        remark(f"nothing was changed: {what} has {letters}; --yes removes it")
    return told(args, done) if done.removed or args.json else 0


@command.verb(
    "show offsets, lag and owner of each partition",
    of_topics("only this one of its topics"),
    shows_log=True,
    route="GET /v1/groups/{group} group",
)
def _show(conn: Conn, args: Args) -> int:
    return listed(args, show_group(conn, args.place))


def _check_filter(args: Args) -> None:
    if args.clear and any(filter_options(args).values()):
        raise UsageError("--clear and a filter: which of the two?")


@command.verb(
    "show which events a group takes; set it, from the next claim on; or let it take all",
    of_topics("of this one of its topics"),
    *FILTER,
    flag("--clear", "take all events again"),
    check=_check_filter,
)
def _filter(conn: Conn, args: Args) -> int:
    place, wanted = args.place, filter_options(args)
    if not args.clear and not any(wanted.values()):
        hint = f"{place} takes all events: gapless groups filter {place} --type TYPE"
        return listed(args, list_filters(conn, place), hint)
    done = clear_filter(conn, place) if args.clear else set_filter(conn, place, **wanted)
    takes = "takes all events" if args.clear else "takes what its filter keeps"
    text = f"group {done.group} of topic {done.topic} {takes}"
    return answer(args, text if done.changed else f"nothing to do: {text} already", done)


@command.verb(
    "let a group be dropped when nobody uses it for long, or never; or show when it is",
    "group",
    one_of(
        opt("--after AGE", "no member and no claim for so long: 12h, 30d"),
        flag("--never", "keep it, as every other group"),
    ),
    check=lambda args: read_age(args.after, "--after"),
)
def _expire(conn: Conn, args: Args) -> int:
    if args.after is None and not args.never:
        hint = f"group {args.group} never expires: gapless groups expire {args.group} --after AGE"
        return listed(args, list_expiries(conn, args.group), hint)
    return told(args, set_expiry(conn, args.group, read_age(args.after, "--after")))
