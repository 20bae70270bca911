"""Verbs of the `topics` command for events of ids that nobody made: list, adopt, discard them."""

from __future__ import annotations

import argparse

from gapless.cli.context import load_all, open_connection, show_found
from gapless.cli.parser import Parser, add_confirm, add_partitions, add_verb, whole
from gapless.cli.retention import add_retention, new_topic_flags
from gapless.cli.screen import answer, remark
from gapless.log.topics import adopt_topic, discard_unrouted
from gapless.ops.text import quantity
from gapless.ops.topics import UnroutedId, list_unrouted

_ID_MAX = 2**31 - 1


def declare(verbs: argparse._SubParsersAction[Parser]) -> None:
    """Declare the verbs."""
    add_verb(verbs, "unrouted", _unrouted, "list the topic ids that have events and no topic")
    adoption = add_verb(
        verbs, "adopt", _adopt, "make a topic of an id that has events: they get their offsets"
    )
    adoption.add_argument("id", type=whole(1, _ID_MAX), help="the topic_id that producers use")
    adoption.add_argument("name", help="letters, digits, dots, dashes and underscores")
    add_partitions(adoption)
    add_retention(adoption)
    giving_up = add_verb(verbs, "discard", _discard, "delete the events of an id that has no topic")
    giving_up.add_argument("id", type=whole(1, _ID_MAX), nargs="?", help="default: all such ids")
    add_confirm(giving_up)


def _unrouted(args: argparse.Namespace) -> int:
    return show_found(args, "topics", UnroutedId, list_unrouted, "all events have a topic")


def _adopt(args: argparse.Namespace) -> int:
    settings = load_all(args, new_topic_flags(args)).settings
    with open_connection(args, "topics", settings) as conn:
        topic, events = adopt_topic(
            conn,
            args.id,
            args.name,
            partitions=settings.total_partitions,
            keep_s=settings.retention_s,
        )
    partitions = quantity(topic.partitions, "partition")
    text = f"topic {topic.name} has id {args.id} and {partitions} now; "
    text += f"{quantity(events, 'event')} get their offsets next"
    answer(
        args, text, topic=topic.name, topic_id=args.id, partitions=topic.partitions, events=events
    )
    return 0


def _discard(args: argparse.Namespace) -> int:
    if not args.apply:
        remark("nothing was given up: --yes does it, for good")
        return _unrouted(args)
    whose = "of all ids without a topic" if args.id is None else f"of topic id {args.id}"
    with open_connection(args, "topics") as conn:
        events = discard_unrouted(conn, args.id)
    answer(args, f"gave up {quantity(events, 'event')} {whose}", topic_id=args.id, events=events)
    return 0
