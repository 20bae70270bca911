"""The `topics` command: list them, create one, show the partitions of one."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.cli.context import load, open_connection
from gapless.cli.parser import Parser, add_json, whole
from gapless.cli.rows import rows
from gapless.cli.screen import say, show
from gapless.db.queries import query

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.log.topics import Topic
    from gapless.settings import Loaded

HELP = "list, create and show topics"
EXAMPLES = """\
examples:
  gapless topics
  gapless topics create orders --partitions 16
  gapless topics show orders --json
"""
PARTITIONS_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A line of `topics list`."""

    topic: str
    partitions: int
    events: int
    groups: int
    created: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A line of `topics show`; log_end_offset is the offset the next event gets."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    events: int


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    listing = verbs.add_parser("list", help="list all topics (also without a verb)")
    listing.set_defaults(act=_list)
    add_json(listing)
    creation = verbs.add_parser("create", help="create a topic; repeat freely")
    creation.set_defaults(act=_create)
    creation.add_argument("name", help="letters, digits, dots, dashes and underscores")
    add_partitions(creation)
    showing = verbs.add_parser("show", help="show the offsets of a topic's partitions")
    showing.set_defaults(act=_show)
    showing.add_argument("name")
    add_json(showing)


def main(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    code: int = args.act(args)
    return code


def add_partitions(parser: argparse.ArgumentParser) -> None:
    """Declare `--partitions`; give it to `load` as the flag total_partitions."""
    parser.add_argument(
        "--partitions",
        type=whole(1, PARTITIONS_MAX),
        metavar="N",
        help="as many workers can share a group's work (default: totalPartitions, which is 8)",
    )


def ensure(conn: Connection[Any], name: str, loaded: Loaded) -> tuple[Topic, bool]:
    """Return the topic, and whether it was made just now.

    Raises UsageError, with both numbers, for one with another number of partitions than somebody
    asked for; the default asks for nothing.
    """
    from gapless.log.topics import ensure_topic, find_topic  # noqa: PLC0415 - not for --help

    before = find_topic(conn, name)
    if before is not None and loaded.sources["totalPartitions"] == "default":
        return before, False
    topic = ensure_topic(conn, name, partitions=loaded.settings.total_partitions)
    return topic, before is None


def _list(args: argparse.Namespace) -> int:
    with open_connection(args, "topics") as conn:
        found = rows(conn, TopicRow, query("cli", "topics"))
    show(TopicRow, found, as_json=args.json, empty="no topic yet: gapless topics create NAME")
    return 0


def _create(args: argparse.Namespace) -> int:
    loaded = load(args, {"total_partitions": args.partitions})
    with open_connection(args, "topics", loaded.settings) as conn:
        topic, is_new = ensure(conn, args.name, loaded)
    what = "created topic" if is_new else "nothing to do: there is a topic"
    say(f"{what} {topic.name} with {topic.partitions} partitions")
    return 0


def _show(args: argparse.Namespace) -> int:
    from gapless.log.topics import require_topic  # noqa: PLC0415 - not for --help

    with open_connection(args, "topics") as conn:
        require_topic(conn, args.name)
        found = rows(conn, PartitionRow, query("cli", "topic_partitions"), topic=args.name)
    show(PartitionRow, found, as_json=args.json)
    return 0
