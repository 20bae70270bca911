"""The `topics` command: list them, create one, show or change the partitions of one."""

from __future__ import annotations

from gapless.cli.declare import (
    TOTAL,
    Args,
    Command,
    Conn,
    flag,
    one_of,
    opt,
    partitions,
    together,
    yes,
)
from gapless.cli.parser import whole
from gapless.cli.screen import answer, listed, remark
from gapless.errors import UsageError
from gapless.features.retention.chunks import find_retention
from gapless.features.retention.ops import read_keep, read_retention
from gapless.log.topics import adopt_topic, discard_unrouted
from gapless.ops.place import read_age
from gapless.ops.text import quantity
from gapless.ops.topics import (
    alter_topic,
    ensure_as_configured,
    list_changes,
    list_topics,
    list_unrouted,
    show_topic,
)

EXAMPLES = """\
examples:
  gapless topics
  gapless topics create orders --partitions 16
  gapless topics show orders --json
  gapless topics alter orders --partitions 32
  gapless topics alter orders --retention 7d
  gapless topics alter orders --dedupe-window 24h
  gapless topics alter orders --direct
  gapless topics alter prices --compact
  gapless topics unrouted
  gapless topics adopt 77 bills --partitions 16
"""
_NAME = opt("name", "letters, digits, dots, dashes and underscores")
_ID_MAX = 2**31 - 1
_RETENTION = opt("--retention AGE", "keep events so long, at least: 90s, 15m, 12h, 7d, or forever")
command = Command("topics")
_COMPACT = one_of(
    flag("--compact", "keep the latest event of each key, beside the log"),
    flag("--no-compact", "keep it no longer"),
)


def _new_retention_s(args: Args) -> int | str | None:
    return None if args.retention is None else read_keep(args.retention) or ""


_NEW_RETENTION = together("retention_s", _new_retention_s, _RETENTION)
_WINDOW = together(
    "window_s",
    lambda args: read_age(args.dedupe_window, "--dedupe-window"),
    opt(
        "--dedupe-window AGE",
        "an event with a dedupe_key that is no older is a duplicate: 90s, 15m, 12h (a new topic: "
        "7d)",
    ),
)


@command.verb("list all topics (also without a verb)", shows_log=True)
def _list(conn: Conn, args: Args) -> int:
    found, changes, strays = list_topics(conn), list_changes(conn), list_unrouted(conn)
    listed(args, found, "no topic yet: gapless topics create NAME")
    for each in changes:  # groups that have not finished a change
        remark(str(each))
    if strays:
        events = quantity(sum(stray.events for stray in strays), "event")
        remark(f"{events} of ids that nobody made: gapless topics unrouted")
    return 0


@command.verb(
    "create a topic; repeat freely",
    _NAME,
    TOTAL,
    _NEW_RETENTION,
    _WINDOW,
    flag("--compact", "keep the latest event of each key, beside the log"),
    as_settings=("total_partitions", "retention_s"),
    route="POST /v1/topics createTopic",
)
def _create(conn: Conn, args: Args) -> int:
    topic, is_new = ensure_as_configured(conn, args.name, args.loaded, args.window_s)
    if args.compact:
        alter_topic(conn, args.name, compact=True)
    what = "created topic" if is_new else "nothing to do: there is a topic"
    text = f"{what} {topic.name} with {quantity(topic.partitions, 'partition')}"
    return answer(args, text, topic=topic.name, partitions=topic.partitions, created=is_new)


def _check_alter(args: Args) -> None:
    parts = (args.partitions, args.retention, args.archive, args.overrun, args.dedupe_window)
    if all(part is None for part in parts) and not (args.direct or args.compact or args.no_compact):
        raise UsageError(
            "what is to change? --partitions, --retention, --archive, --overrun, --dedupe-window, "
            "--direct, --compact or --no-compact"
        )


@command.verb(
    "change partitions, retention or dedupe window while everything runs; repeat freely",
    "name",
    partitions("the new number, more or fewer"),
    _RETENTION,
    opt(
        "--archive PIPELINE",
        "let retention wait for this pipeline, also if it never ran; none: for none",
    ),
    opt(
        "--overrun GROUPS",
        "let retention drop what these groups (commas between) have not handled; none: wait",
    ),
    _WINDOW,
    flag("--direct", "let it take messages for one group, from now on"),
    _COMPACT,
    check=_check_alter,
    route="POST /v1/topics/{name}/alter alterTopic",
)
def _alter(conn: Conn, args: Args) -> int:
    kept, keeps = None, (args.retention, args.archive, args.overrun)
    if keeps != (None, None, None):
        kept = read_retention(find_retention(conn, args.name), *keeps)
    done = alter_topic(
        conn,
        args.name,
        retention=kept,
        dedupe_window_s=args.window_s,
        direct=args.direct,
        compact=True if args.compact else False if args.no_compact else None,
        partitions=args.partitions,
    )
    for each in done.changes:
        remark(str(each))
    asked = args.loaded.settings.total_partitions
    source = args.loaded.sources["totalPartitions"]
    if done.partitions is not None and source != "default" and asked != done.partitions:
        remark(
            f"warning: totalPartitions is {asked} in {source}: gapless "
            f"run refuses the topic with it; write {done.partitions}, or leave it out"
        )
    return answer(args, str(done), done.record())


@command.verb(
    "show the offsets of a topic's partitions",
    opt("topic name"),
    shows_log=True,
    route="GET /v1/topics/{topic} topic",
)
def _show(conn: Conn, args: Args) -> int:
    return listed(args, show_topic(conn, args.topic))


@command.verb("list the topic ids that have events and no topic")
def _unrouted(conn: Conn, args: Args) -> int:
    return listed(args, list_unrouted(conn), "all events have a topic")


@command.verb(
    "make a topic of an id that has events: they get their offsets",
    opt("id", "the topic_id that producers use", whole(1, _ID_MAX)),
    _NAME,
    TOTAL,
    _NEW_RETENTION,
    as_settings=("total_partitions", "retention_s"),
)
def _adopt(conn: Conn, args: Args) -> int:
    settings = args.loaded.settings
    count, keep_s = settings.total_partitions, settings.retention_s
    topic, events = adopt_topic(conn, args.id, args.name, partitions=count, keep_s=keep_s)
    text = f"topic {topic.name} has id {args.id} and {quantity(topic.partitions, 'partition')} now"
    text += f"; {quantity(events, 'event')} get their offsets next"
    made = {"topic": topic.name, "topic_id": args.id, "partitions": topic.partitions}
    return answer(args, text, **made, events=events)


@command.verb(
    "delete the events of an id that has no topic",
    opt("id", "default: all such ids", whole(1, _ID_MAX), nargs="?"),
    yes(),
)
def _discard(conn: Conn, args: Args) -> int:
    if not args.apply:
        remark("nothing was given up: --yes does it, for good")
        return _unrouted(conn, args)
    whose = "of all ids without a topic" if args.id is None else f"of topic id {args.id}"
    events = discard_unrouted(conn, args.id)
    text = f"gave up {quantity(events, 'event')} {whose}"
    return answer(args, text, topic_id=args.id, events=events)
