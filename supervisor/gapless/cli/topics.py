"""The `topics` command: list them, create one, show or change the partitions of one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.cli import unrouted
from gapless.cli.context import load, open_connection
from gapless.cli.parser import Parser, add_json, add_partitions
from gapless.cli.retention import add_dedupe_window, add_retention, changed, parse_age, parse_window
from gapless.cli.screen import note, only_json, show, tell
from gapless.db.queries import query
from gapless.ops.rows import rows
from gapless.ops.text import age, count

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.log.topics import Topic
    from gapless.settings import Loaded

HELP = "list, create, adopt and show topics, change their number of partitions and their retention"
EXAMPLES = """\
examples:
  gapless topics
  gapless topics create orders --partitions 16
  gapless topics show orders --json
  gapless topics alter orders --partitions 32
  gapless topics alter orders --retention 7d
  gapless topics alter orders --dedupe-window 24h
  gapless topics unrouted
  gapless topics adopt 77 bills --partitions 16
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A line of `topics list`; dedupe_window: for so long dedupe keys are remembered."""

    topic: str
    partitions: int
    events: int
    groups: int
    retention: str
    dedupe_window: str
    retention_s: float | None = only_json()
    created: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRow:
    """A line of `topics show`; log_end_offset is the offset the next event gets.

    state: active, or old for one it had before its number was lowered.
    """

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    events: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """A group that has yet to finish events of an earlier number of partitions."""

    group: str
    topic: str
    partitions_before: int
    partitions: int
    unfinished: Sequence[int]
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
    add_retention(creation)
    add_dedupe_window(creation)
    add_json(creation)
    change = verbs.add_parser(
        "alter",
        help="change partitions, retention or dedupe window while everything runs; repeat freely",
    )
    change.set_defaults(act=_alter)
    change.add_argument("name")
    add_partitions(change, "the new number, more or fewer")
    add_retention(change, overrun=True)
    add_dedupe_window(change)
    add_json(change)
    showing = verbs.add_parser("show", help="show the offsets of a topic's partitions")
    showing.set_defaults(act=_show)
    showing.add_argument("name")
    add_json(showing)
    unrouted.declare(verbs)


def main(args: argparse.Namespace) -> int:
    """Do what the verb says."""
    code: int = args.act(args)
    return code


def ensure(
    conn: Connection[Any], name: str, loaded: Loaded, window_s: int | None = None
) -> tuple[Topic, bool]:
    """Return the topic, and whether it was made just now, then with this dedupe window.

    Raises UsageError, with both numbers, for one with another number of partitions than somebody
    asked for; the default asks for nothing.
    """
    from gapless.log.topics import create_topic, find_topic  # noqa: PLC0415 - not for --help

    before = find_topic(conn, name)
    if before is not None and loaded.sources["totalPartitions"] == "default":
        return before, False
    settings = loaded.settings
    return create_topic(
        conn,
        name,
        partitions=settings.total_partitions,
        keep_s=settings.retention_s,
        dedupe_window_s=window_s,
    )


def _list(args: argparse.Namespace) -> int:
    with open_connection(args, "topics") as conn:
        found = rows(conn, TopicRow, query("cli", "topics"))
        changes = rows(conn, ChangeRow, query("cli", "changes"), topic=None)
        strays = rows(conn, unrouted.UnroutedRow, query("cli", "unrouted"))
    show(TopicRow, found, as_json=args.json, empty="no topic yet: gapless topics create NAME")
    _tell(changes)
    if strays:
        events = count(sum(stray.events for stray in strays), "event")
        note(f"{events} of ids that nobody made: gapless topics unrouted")
    return 0


def _alter(args: argparse.Namespace) -> int:
    from gapless.errors import UsageError  # noqa: PLC0415 - not for --help

    kept = (args.retention, args.archive, args.overrun) != (None, None, None)
    if args.partitions is None and not kept and args.dedupe_window is None:
        raise UsageError(
            "what is to change? --partitions, --retention, --archive, --overrun or --dedupe-window"
        )
    window_s = parse_window(args.dedupe_window)
    done: dict[str, object] = {"topic": args.name}
    lines = []
    loaded = load(args)
    with open_connection(args, "topics", loaded.settings) as conn:
        if kept:
            lines.append(_alter_retention(conn, args, done))
        if window_s is not None:
            lines.append(_alter_window(conn, args.name, window_s, done))
        if args.partitions is not None:
            lines.append(_alter_partitions(conn, args, loaded, done))
    tell(args, "\n".join(lines), **done)
    return 0


def _alter_partitions(
    conn: Connection[Any], args: argparse.Namespace, loaded: Loaded, done: dict[str, object]
) -> str:
    """Change the number; say what was done, in words and in `done`."""
    from gapless.log.topics import require_topic, set_partitions  # noqa: PLC0415 - not for --help

    before = require_topic(conn, args.name).partitions
    topic = set_partitions(conn, args.name, args.partitions)
    _tell(rows(conn, ChangeRow, query("cli", "changes"), topic=args.name))
    asked = loaded.settings.total_partitions
    if loaded.sources["totalPartitions"] != "default" and asked != topic.partitions:
        note(
            f"warning: totalPartitions is {asked} in {loaded.sources['totalPartitions']}: gapless "
            f"run refuses the topic with it; write {topic.partitions}, or leave it out"
        )
    done |= {"partitions_before": before, "partitions": topic.partitions}
    if before == topic.partitions:
        return f"nothing to do: topic {topic.name} has {count(topic.partitions, 'partition')}"
    return (
        f"topic {topic.name} has {count(topic.partitions, 'partition')} now, {before} before: "
        "events that are there are finished where they are, then the same keys go on in the "
        "new ones"
    )


def _alter_retention(
    conn: Connection[Any], args: argparse.Namespace, done: dict[str, object]
) -> str:
    """Change how long events are kept; say what was done, in words and in `done`."""
    from gapless.log.retention import find_retention, set_retention  # noqa: PLC0415 - see above

    after = changed(args, find_retention(conn, args.name))
    set_retention(conn, args.name, after)
    done |= {
        "retention_s": after.keep_s,
        "archive": after.archive,
        "overrun": list(after.overrun or ()),
    }
    return (
        f"topic {args.name} keeps its events "
        + ("for ever" if after.keep_s is None else f"for {age(after.keep_s)}, at least")
        + (f", until pipeline {after.archive} has archived them" if after.archive else "")
        + (f", whatever {', '.join(after.overrun)} have handled" if after.overrun else "")
    )


def _alter_window(conn: Connection[Any], name: str, window_s: int, done: dict[str, object]) -> str:
    """Change the window; say what was done, in words and in `done`."""
    from gapless.log.topics import set_dedupe_window  # noqa: PLC0415 - not for --help

    set_dedupe_window(conn, name, window_s)
    done["dedupe_window_s"] = window_s
    return f"topic {name} remembers dedupe keys for {age(window_s)}"


def _tell(changes: Sequence[ChangeRow]) -> None:
    """Say on stderr which groups are not done with a change."""
    for each in changes:
        note(
            f"topic {each.topic}, group {each.group}: from {each.partitions_before} to "
            f"{count(each.partitions, 'partition')}, {count(each.events, 'event')} to finish first "
            f"in partitions {', '.join(map(str, each.unfinished))}"
        )


def _create(args: argparse.Namespace) -> int:
    flags: dict[str, object] = {"total_partitions": args.partitions}
    if args.retention is not None:
        flags["retention_s"] = parse_age(args.retention) or ""
    window_s = parse_window(args.dedupe_window)
    loaded = load(args, flags)
    with open_connection(args, "topics", loaded.settings) as conn:
        topic, is_new = ensure(conn, args.name, loaded, window_s)
    what = "created topic" if is_new else "nothing to do: there is a topic"
    text = f"{what} {topic.name} with {count(topic.partitions, 'partition')}"
    tell(args, text, topic=topic.name, partitions=topic.partitions, created=is_new)
    return 0


def _show(args: argparse.Namespace) -> int:
    from gapless.log.topics import require_topic  # noqa: PLC0415 - not for --help

    with open_connection(args, "topics") as conn:
        require_topic(conn, args.name)
        found = rows(conn, PartitionRow, query("cli", "topic_partitions"), topic=args.name)
    show(PartitionRow, found, as_json=args.json)
    return 0
