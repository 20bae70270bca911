"""The `groups` command: list consumer groups, create one, show the lag of one."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless.cli.context import open_connection
from gapless.cli.parser import Parser, add_json
from gapless.cli.place import Target, place, range_of, start
from gapless.cli.screen import note, say, show, tell
from gapless.db.queries import query
from gapless.errors import GaplessError, UsageError
from gapless.ops.doctor.places import Astray
from gapless.ops.rows import rows
from gapless.ops.text import count, to_json

if TYPE_CHECKING:
    from psycopg import Connection

HELP = "list, create and show consumer groups and their lag"
EXAMPLES = """\
examples:
  gapless groups
  gapless groups show billing
  gapless groups show billing/orders
  gapless groups create billing orders --start latest
  gapless groups create audit orders --start 2026-03-01T00:00Z
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A line of `groups list`."""

    group: str
    topic: str
    state: str
    members: int
    partitions: int
    lag: int
    dead_letters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartitionRow:
    """A line of `groups show`; current_offset is the offset handled next, member who owns it."""

    group: str
    topic: str
    partition: int
    current_offset: int
    log_end_offset: int
    lag: int
    member: str | None
    epoch: int | None
    error: str | None


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    listing = verbs.add_parser("list", help="list all groups (also without a verb)")
    listing.set_defaults(act=_list)
    add_json(listing)
    creation = verbs.add_parser(
        "create", help="make a group known before its first `gapless run`; repeat freely"
    )
    creation.set_defaults(act=_create)
    creation.add_argument("group", help="letters, digits, dots, dashes and underscores")
    creation.add_argument("topic")
    creation.add_argument(
        "--start",
        "--from",
        dest="start",
        type=start,
        metavar="PLACE",
        default=Target(end="earliest"),
        help="where it begins: earliest (default), latest, an offset, a time",
    )
    add_json(creation)
    removal = verbs.add_parser(
        "remove", help="forget a group, its offsets and dead letters; without --yes only say what"
    )
    removal.set_defaults(act=_remove)
    removal.add_argument("group")
    removal.add_argument("--yes", action="store_true", help="do it")
    add_json(removal)
    showing = verbs.add_parser("show", help="show offsets, lag and owner of each partition")
    showing.set_defaults(act=_show)
    showing.add_argument("place", type=place, metavar="GROUP[/TOPIC]")
    showing.add_argument("--topic", help="only this one of its topics")
    add_json(showing)
    showing.set_defaults(partition=None)


def main(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    code: int = args.act(args)
    return code


def _list(args: argparse.Namespace) -> int:
    with open_connection(args, "groups") as conn:
        found = rows(conn, GroupRow, query("cli", "groups"))
    hint = "no group yet: gapless run makes them, and so does gapless groups create GROUP TOPIC"
    show(GroupRow, found, as_json=args.json, empty=hint)
    return 0


def _create(args: argparse.Namespace) -> int:
    from psycopg.errors import CheckViolation  # noqa: PLC0415 - not for --help

    from gapless.log.topics import require_topic  # noqa: PLC0415 - not for --help

    name = f"group {args.group} of topic {args.topic}"
    with open_connection(args, "groups") as conn:
        require_topic(conn, args.topic)
        where = {"group": args.group, "topic": args.topic}
        for each in rows(conn, Astray, query("cli", "group_astray"), **where):
            raise GaplessError(f"{each}: {each.remedy}")
        if rows(
            conn,
            GroupPartitionRow,
            query("cli", "group_partitions"),
            **where,
        ):
            _told(args, f"nothing to do: there is a {name}", created=False)
            return 0
        try:
            _create_at(conn, args.group, args.topic, args.start)
        except CheckViolation as error:
            raise UsageError(
                f'"{args.group}" is not a group name: use 1 to 249 letters, digits, dots, dashes '
                "and underscores"
            ) from error
    _told(args, f"created {name}, from {args.start}", created=True)
    return 0


def _told(args: argparse.Namespace, text: str, *, created: bool) -> None:
    start = str(args.start) if created else None
    tell(args, text, group=args.group, topic=args.topic, created=created, start=start)


def _create_at(conn: Connection[Any], group: str, topic: str, place: Target) -> None:
    """Make the group at a place: nobody sees it before it is there."""
    what = {"group": group, "topic": topic, "partition": None, "transaction": None}
    with conn.transaction():
        named = {"group_id": group, "topic": topic, "start": place.end or "earliest"}
        conn.execute(query("lease", "create_group"), named)
        if place.end is None:
            to = {"end": None, "offset": place.offset, "time": place.time, "holder": None}
            conn.execute(query("control", "seek"), {**what, **to})


def _remove(args: argparse.Namespace) -> int:
    with open_connection(args, "groups") as conn:
        found = [
            row for row in rows(conn, GroupRow, query("cli", "groups")) if row.group == args.group
        ]
        if not found:
            raise UsageError(f'there is no group "{args.group}": gapless groups lists them')
        topics = ", ".join(row.topic for row in found)
        letters = count(sum(row.dead_letters for row in found), "dead letter")
        what = {
            "group": args.group,
            "topics": [row.topic for row in found],
            "dead_letters": sum(row.dead_letters for row in found),
        }
        if not args.yes:
            note(
                f"nothing was changed: group {args.group} of {topics} has {letters}; "
                "--yes removes it"
            )
            if args.json:
                say(to_json({**what, "removed": False}))
            return 0
        conn.execute(query("control", "drop_group"), {"group": args.group})
    tell(args, f"removed group {args.group} of {topics}, and {letters}", **what, removed=True)
    return 0


def _topic_of(args: argparse.Namespace) -> dict[str, object]:
    """Return the group, and the topic if one was said. Raises UsageError."""
    where = range_of(args)
    if where.pop("partition") is not None:
        raise UsageError(
            f"{args.place}: a group, or one of its topics, is shown with all partitions"
        )
    return where


def _show(args: argparse.Namespace) -> int:
    where = _topic_of(args)
    with open_connection(args, "groups") as conn:
        found = rows(conn, GroupPartitionRow, query("cli", "group_partitions"), **where)
    if not found:
        of_topic = f' of topic "{where["topic"]}"' if where["topic"] else ""
        raise UsageError(
            f'there is no group "{where["group"]}"{of_topic}: gapless groups lists them'
        )
    show(GroupPartitionRow, found, as_json=args.json)
    return 0
