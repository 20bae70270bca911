"""The `topics` command: list them, create one, show or change the partitions of one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gapless.cli import unrouted
from gapless.cli.context import load_all, open_connection, show_found
from gapless.cli.parser import Parser, add_partitions, add_verb
from gapless.cli.retention import (
    add_dedupe_window,
    add_retention,
    changed,
    new_topic_flags,
    parse_window,
)
from gapless.cli.screen import answer, remark, show
from gapless.errors import UsageError
from gapless.log.retention import find_retention
from gapless.ops.text import age_text, quantity
from gapless.ops.topics import (
    AlteredTopic,
    TopicChange,
    TopicInfo,
    TopicPartition,
    alter_topic,
    ensure_as_configured,
    list_changes,
    list_topics,
    list_unrouted,
    show_topic,
)

if TYPE_CHECKING:
    from gapless.settings import Loaded

EXAMPLES = """\
examples:
  gapless topics
  gapless topics create orders --partitions 16
  gapless topics show orders --json
  gapless topics alter orders --partitions 32
  gapless topics alter orders --retention 7d
  gapless topics alter orders --dedupe-window 24h
  gapless topics alter orders --direct
  gapless topics unrouted
  gapless topics adopt 77 bills --partitions 16
"""


def add_arguments(parser: Parser) -> None:
    """Declare the verbs."""
    verbs = parser.add_verbs("list")
    add_verb(verbs, "list", _list, "list all topics (also without a verb)")
    creation = add_verb(verbs, "create", _create, "create a topic; repeat freely")
    creation.add_argument("name", help="letters, digits, dots, dashes and underscores")
    add_partitions(creation)
    add_retention(creation)
    add_dedupe_window(creation)
    change = add_verb(
        verbs,
        "alter",
        _alter,
        "change partitions, retention or dedupe window while everything runs; repeat freely",
    )
    change.add_argument("name")
    add_partitions(change, "the new number, more or fewer")
    add_retention(change, overrun=True)
    add_dedupe_window(change)
    change.add_argument(
        "--direct", action="store_true", help="let it take messages for one group, from now on"
    )
    showing = add_verb(verbs, "show", _show, "show the offsets of a topic's partitions")
    showing.add_argument("name")
    unrouted.declare(verbs)


def _list(args: argparse.Namespace) -> int:
    with open_connection(args, "topics") as conn:
        found = list_topics(conn)
        changes = list_changes(conn)
        strays = list_unrouted(conn)
    show(TopicInfo, found, as_json=args.json, empty="no topic yet: gapless topics create NAME")
    _tell(changes)
    if strays:
        events = quantity(sum(stray.events for stray in strays), "event")
        remark(f"{events} of ids that nobody made: gapless topics unrouted")
    return 0


def _alter(args: argparse.Namespace) -> int:
    keeps = (args.retention, args.archive, args.overrun) != (None, None, None)
    if args.partitions is None and not keeps and args.dedupe_window is None and not args.direct:
        raise UsageError(
            "what is to change? --partitions, --retention, --archive, --overrun, --dedupe-window "
            "or --direct"
        )
    window_s = parse_window(args.dedupe_window)
    loaded = load_all(args)
    with open_connection(args, "topics", loaded.settings) as conn:
        done = alter_topic(
            conn,
            args.name,
            retention=changed(args, find_retention(conn, args.name)) if keeps else None,
            dedupe_window_s=window_s,
            direct=args.direct,
            partitions=args.partitions,
        )
    _tell(done.changes)
    _warn_of_configuration(loaded, done)
    lines = (_retention(done), _window(done), _direct(done), _partitions(done))
    answer(args, "\n".join(filter(None, lines)), **done.record())
    return 0


def _warn_of_configuration(loaded: Loaded, done: AlteredTopic) -> None:
    asked, source = loaded.settings.total_partitions, loaded.sources["totalPartitions"]
    if done.partitions is not None and source != "default" and asked != done.partitions:
        remark(
            f"warning: totalPartitions is {asked} in {source}: gapless "
            f"run refuses the topic with it; write {done.partitions}, or leave it out"
        )


def _partitions(done: AlteredTopic) -> str:
    if done.partitions is None:
        return ""
    if done.partitions_before == done.partitions:
        return f"nothing to do: topic {done.topic} has {quantity(done.partitions, 'partition')}"
    return (
        f"topic {done.topic} has {quantity(done.partitions, 'partition')} now, "
        f"{done.partitions_before} before: "
        "events that are there are finished where they are, then the same keys continue in the "
        "new ones"
    )


def _retention(done: AlteredTopic) -> str:
    if (kept := done.retention) is None:
        return ""
    return (
        f"topic {done.topic} keeps its events "
        + ("forever" if kept.keep_s is None else f"for {age_text(kept.keep_s)}, at least")
        + (f", until pipeline {kept.archive} has archived them" if kept.archive else "")
        + (f", whatever {', '.join(kept.overrun)} have handled" if kept.overrun else "")
    )


def _window(done: AlteredTopic) -> str:
    if done.dedupe_window_s is None:
        return ""
    return f"topic {done.topic} remembers dedupe keys for {age_text(done.dedupe_window_s)}"


def _direct(done: AlteredTopic) -> str:
    return f"topic {done.topic} takes direct messages (to_group)" if done.direct else ""


def _tell(changes: Sequence[TopicChange]) -> None:
    """Say on stderr which groups are not done with a change."""
    for each in changes:
        remark(
            f"topic {each.topic}, group {each.group}: from {each.partitions_before} to "
            f"{quantity(each.partitions, 'partition')}, "
            f"{quantity(each.events, 'event')} to finish first "
            f"in partitions {', '.join(map(str, each.unfinished))}"
        )


def _create(args: argparse.Namespace) -> int:
    window_s = parse_window(args.dedupe_window)
    loaded = load_all(args, new_topic_flags(args))
    with open_connection(args, "topics", loaded.settings) as conn:
        topic, is_new = ensure_as_configured(conn, args.name, loaded, window_s)
    what = "created topic" if is_new else "nothing to do: there is a topic"
    text = f"{what} {topic.name} with {quantity(topic.partitions, 'partition')}"
    answer(args, text, topic=topic.name, partitions=topic.partitions, created=is_new)
    return 0


def _show(args: argparse.Namespace) -> int:
    return show_found(args, "topics", TopicPartition, lambda conn: show_topic(conn, args.name))
