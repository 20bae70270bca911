"""The `groups` command: list consumer groups, create one, show the lag of one."""

from __future__ import annotations

from importlib import import_module

from gapless import feature
from gapless.cli.declare import Args, Command, Conn, opt, yes
from gapless.cli.place import of_topics, point
from gapless.cli.screen import listed, remark, told
from gapless.ops.groups import create_group, list_groups, remove_group, show_group
from gapless.ops.place import EARLIEST
from gapless.ops.text import quantity
from gapless.ops.work import show_work

EXAMPLES = """\
examples:
  gapless groups
  gapless groups show billing
  gapless groups show billing/orders
  gapless groups work billing
  gapless groups create billing orders --start latest
  gapless groups create audit orders --start 2026-03-01T00:00Z
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
    "forget a group, its offsets and dead letters; without --yes only say what would go",
    "group",
    yes(),
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


@command.verb(
    "show the occupation of each worker, and since when",
    of_topics("only this one of its topics"),
    route="GET /v1/groups/{group}/work groupWork",
)
def _work(conn: Conn, args: Args) -> int:
    return listed(args, show_work(conn, args.place))


for name in feature.given(lambda each: each.verbs.get("groups")):
    more = import_module(name)
    command.join(more.command)
    EXAMPLES += more.EXAMPLES
