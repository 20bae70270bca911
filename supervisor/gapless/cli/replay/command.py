"""The options of `gapless replay`, and what it says in the end."""

from __future__ import annotations

import argparse
import signal
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from gapless.cli.context import load_settings, open_connection
from gapless.cli.parser import add_json, whole
from gapless.cli.place import Target, start
from gapless.cli.progress import Steps
from gapless.cli.rows import rows
from gapless.cli.screen import count, note, say, show, to_json
from gapless.db.queries import query
from gapless.errors import UsageError

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.consume.handler import Handler

HELP = "run a handler over a range of a topic, beside all groups"
EXAMPLES = """\
It makes a scratch group, which handles each event of the range once, and moves no other group.
What fails is dead at once, in the dead letter queue of the scratch group. Run --continue in
several terminals, and they share the partitions.

examples:
  gapless replay shop:bill --topic orders --from 2026-03-01T00:00Z --to 2026-03-02T00:00Z
  gapless replay shop:bill --continue replay-1f3a
  gapless replay --list
  gapless replay --remove replay-1f3a
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRow:
    """A line of --list: events in its range, and how many are done; running: somebody is at it."""

    name: str
    topic: str
    events: int
    done: int
    dead_letters: int
    running: bool
    created: datetime


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("handler", nargs="?", metavar="MODULE:HANDLER", help="as in gapless run")
    parser.add_argument("--topic", help="the topic (default: the handler's)")
    parser.add_argument("--partition", type=whole(0, 4095), metavar="P", help="only this one")
    parser.add_argument(
        "--from",
        dest="begin",
        type=start,
        metavar="PLACE",
        default=Target(end="earliest"),
        help="earliest (default), an offset, or a time",
    )
    parser.add_argument(
        "--to", dest="stop", type=start, metavar="PLACE", help="before this offset or time"
    )
    parser.add_argument("--name", help="of the scratch group (default: replay- and four digits)")
    parser.add_argument("--keep", action="store_true", help="keep the scratch group when done")
    parser.add_argument("--batch-size", type=int, metavar="N", help="events per claim")
    other = parser.add_mutually_exclusive_group()
    other.add_argument("--continue", dest="old", metavar="NAME", help="go on with this one")
    other.add_argument("--remove", metavar="NAME", help="forget this one, and its dead letters")
    other.add_argument("--list", action="store_true", help="list those that were not finished")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Replay, go on with a replay, remove or list replays."""
    if args.list:
        return _list(args)
    if args.remove:
        return _remove(args)
    if not args.handler:
        raise UsageError("which handler? gapless replay module:handler")
    handler = _handler(args)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.default_int_handler)
    flags = {} if args.batch_size is None else {"batch_size": args.batch_size}
    settings = load_settings(args, flags)
    with open_connection(args, "replay", settings) as conn:
        if args.old:
            name, events = args.old, _require(conn, args.old).events
        else:
            name, events = _create(conn, args, handler)
            note(f"replay {name}: {count(events, 'event')} of topic {handler.topic}")
        return _run(conn, args, name, handler, settings)


def _run(
    conn: Connection[Any], args: argparse.Namespace, name: str, handler: Handler, settings: Any
) -> int:
    from gapless.cli.replay.run import progress, run  # noqa: PLC0415 - not for --help
    from gapless.consume.step import Limits  # noqa: PLC0415 - not for --help

    limits = Limits(
        batch_size=handler.batch_size or settings.batch_size,
        group_by=handler.group_by or settings.group_by,
        stream_above_events=settings.stream_above_events,
        units_per_commit=settings.max_units_per_savepoint_batch,
    )
    begun = progress(conn, name)
    did = 0
    try:
        with Steps("replay", begun.events) as steps:
            steps.show(begun.done)

            def tell(events: int) -> None:
                nonlocal did
                did += events
                steps.show(min(begun.done + did, begun.events))

            run(conn, name, handler, limits, tell)
    except BaseException:
        note(
            f"replay {name} is not finished: {begun.done + did:,} of "
            f"{count(begun.events, 'event')} done; go on with gapless replay "
            f"{args.handler} --continue {name}, or forget it with gapless replay --remove {name}"
        )
        raise
    return _finish(conn, args, name, did)


def _finish(conn: Connection[Any], args: argparse.Namespace, name: str, did: int) -> int:
    from gapless.cli.replay.run import parts, progress  # noqa: PLC0415 - not for --help

    end = progress(conn, name)
    is_done = not parts(conn, name)
    is_kept = not is_done or end.dead_units > 0 or args.keep
    if not is_kept:
        conn.execute(query("control", "drop_group"), {"group": name})
    if args.json:
        say(to_json({"name": name, **asdict(end), "finished": is_done, "kept": is_kept}))
        return 0
    handled = end.done - end.dead_events
    if not is_done:
        say(f"{count(did, 'event')} done here; others are still at replay {name}")
    elif end.dead_units:
        say(
            f"replayed {count(end.done, 'event')}: {handled:,} handled, {end.dead_events:,} in "
            f"{count(end.dead_units, 'dead letter')}: gapless dlq list --group {name}; "
            f"then gapless replay --remove {name}"
        )
    else:
        say(f"replayed {count(end.done, 'event')}: all handled")
    return 0


def _create(conn: Connection[Any], args: argparse.Namespace, handler: Handler) -> tuple[str, int]:
    from gapless.log.topics import require_topic  # noqa: PLC0415 - not for --help

    require_topic(conn, handler.topic)
    stop = args.stop or Target()
    if stop.end == "earliest":
        raise UsageError("--to earliest: that is before every event")
    name = args.name or f"replay-{uuid4().hex[:4]}"
    what = {
        "group": name,
        "topic": handler.topic,
        "partition": args.partition,
        "from_end": args.begin.end,
        "from_offset": args.begin.offset,
        "from_time": args.begin.time,
        "to_offset": stop.offset,
        "to_time": stop.time,
    }
    row = conn.execute(query("control", "create_replay"), what).fetchone()
    assert row is not None
    return name, int(row[0])


def _handler(args: argparse.Namespace) -> Handler:
    from gapless.consume.load import load_handlers  # noqa: PLC0415 - not for --help

    found = load_handlers(args.handler)
    if len(found) > 1 and args.topic:
        found = [each for each in found if each.topic == args.topic] or found
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise UsageError(f"{args.handler} has several handlers: say which one of {names}")
    handler = found[0]
    if handler.delivery == "at-least-once":
        raise UsageError(f"{handler.name} is at-least-once: a replay would send it all again")
    # Whatever its policy: nobody will be there to try again later, or to wait behind.
    return replace(
        handler,
        topic=args.topic or handler.topic,
        on_failure="dead-letter",
        retry_delays_s=None,
    )


def _require(conn: Connection[Any], name: str) -> ReplayRow:
    found = [row for row in rows(conn, ReplayRow, query("control", "replays")) if row.name == name]
    if not found:
        raise UsageError(f'there is no replay "{name}": gapless replay --list shows them')
    return found[0]


def _list(args: argparse.Namespace) -> int:
    with open_connection(args, "replay") as conn:
        found = rows(conn, ReplayRow, query("control", "replays"))
    show(ReplayRow, found, as_json=args.json, empty="no replay is unfinished")
    return 0


def _remove(args: argparse.Namespace) -> int:
    with closing(open_connection(args, "replay")) as conn:
        row = _require(conn, args.remove)
        conn.execute(query("control", "drop_group"), {"group": args.remove})
    if args.json:
        say(to_json({"removed": args.remove, "dead_letters": row.dead_letters}))
    else:
        say(f"removed replay {args.remove}, and {count(row.dead_letters, 'dead letter')}")
    return 0
