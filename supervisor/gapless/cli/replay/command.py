"""The options of `gapless replay`, and what it says in the end."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from gapless.cli.context import load_settings, open_connection
from gapless.cli.parser import add_json, whole
from gapless.cli.place import Target, start
from gapless.cli.progress import Steps
from gapless.cli.screen import note, say, show
from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.ops.rows import rows
from gapless.ops.text import count, plain, to_json

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.consume.handler import Handler
    from gapless.consume.terms import Terms
    from gapless.settings import Settings

HELP = "run a handler over a range of a topic, beside all groups"
EXAMPLES = """\
Without --yes nothing is done: it says what would be handled, and with which effects. --yes makes a
scratch group, which handles each event of the range once, and moves no other group. What fails is
dead at once, in the dead letter queue of the scratch group. Run --continue in several terminals,
and they share the partitions.

--dry-run calls the handler for each unit of the range and rolls everything back: effects, events
that it publishes, dead letters. What it does outside of the database is done, and numbers taken
from sequences stay taken. It is one transaction, whatever the range: until its end the rows that
the handler wrote are locked, and vacuum and retention wait. In memory it keeps one claim, in the
server one savepoint for each claim, and for each unit of a claim in which one fails. Take a short
range (--partition, --from, --to) where others work on the same rows.

examples:
  gapless replay shop:bill --topic orders --from 2026-03-01T00:00Z --to 2026-03-02T00:00Z
  gapless replay shop:bill --from 1200 --partition 3 --dry-run
  gapless replay shop:bill --from 1200 --partition 3 --yes
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
    parser.add_argument("--yes", "--apply", dest="apply", action="store_true", help="do it")
    parser.add_argument(
        "--dry-run", action="store_true", help="call the handler for all of it, and roll it back"
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument(
        "--continue", dest="old", metavar="NAME", help="go on with this one; needs no --yes"
    )
    other.add_argument("--remove", metavar="NAME", help="forget this one, and its dead letters")
    other.add_argument("--list", action="store_true", help="list those that were not finished")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Show what a replay would do, try it, or do it; go on with, remove or list replays."""
    if args.list:
        return _list(args)
    if args.remove:
        return _remove(args)
    if not args.handler:
        raise UsageError("which handler? gapless replay module:handler")
    if args.dry_run and (args.apply or args.old):
        raise UsageError(
            f"--dry-run and {'--yes' if args.apply else '--continue'}: one or the other"
        )
    flags = {} if args.batch_size is None else {"batch_size": args.batch_size}
    settings = load_settings(args, flags)
    handler = _handler(args, settings)
    terms = _terms(handler, settings, args.topic)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.default_int_handler)
    with open_connection(args, "replay", settings) as conn:
        if args.old:
            _require(conn, args.old)
            return _run(conn, args, args.old, handler, terms)
        what = _range(conn, args, terms.topic)
        name = str(what["group"])
        if not args.apply:
            return _try(conn, args, handler, terms, what)
        row = conn.execute(query("control", "create_replay"), what).fetchone()
        assert row is not None
        note(f"replay {name}: {count(int(row[0]), 'event')} of topic {terms.topic}")
        return _run(conn, args, name, handler, terms)


def _terms(handler: Handler, settings: Settings, topic: str | None = None) -> Terms:
    """Return the terms of the handler here, for the topic that was said, if one was.

    Raises UsageError if it is at-least-once.
    """
    from gapless.consume.policy import Policy  # noqa: PLC0415 - not for --help
    from gapless.consume.terms import agree  # noqa: PLC0415 - not for --help

    terms = agree(handler, settings)
    if terms.delivery == "at-least-once":
        raise UsageError(f"{handler.name} is at-least-once: a replay would send it all again")
    # Whatever its policy: nobody will be there to try again later, or to wait behind.
    policy = Policy(crashes_max=terms.policy.crashes_max)
    return replace(terms, topic=topic or terms.topic, policy=policy)


def _try(
    conn: Connection[Any],
    args: argparse.Namespace,
    handler: Handler,
    terms: Terms,
    what: Mapping[str, object],
) -> int:
    """Show what would be done, or with --dry-run what would become of it; change nothing."""
    from gapless.cli.replay.preview import show_preview  # noqa: PLC0415 - not for --help
    from gapless.ops.replay.plan import ranges  # noqa: PLC0415 - not for --help

    found = ranges(conn, what)
    events = sum(each.events for each in found)
    if not args.dry_run:
        show_preview(conn, handler, terms, found, as_json=args.json)
        note(
            f"nothing was done: {count(events, 'event')} would be handled; --yes does it, "
            "--dry-run tries it and rolls it back"
        )
        return 0
    from gapless.ops.replay.trial import Trial  # noqa: PLC0415 - not for --help

    with Steps("dry run", events, "; nothing was changed") as steps:
        tried = Trial(conn, str(what["group"]), handler, terms, found, steps.show).run()
    if args.json:
        say(to_json({"dry_run": True, **asdict(tried)}, indent=2))
    else:
        skipped = f", {tried.skipped:,} skipped" if tried.skipped else ""
        fail = f"{tried.failed:,} would fail" + (":" if tried.failed else "")
        say(f"{count(tried.handled, 'unit')} would be handled{skipped}, {fail}")
        for each in tried.failures:
            say(plain(f"  {each.topic}/{each.partition}@{each.offset}: {each.error}"))
        if tried.failed > len(tried.failures):
            say(f"  and {tried.failed - len(tried.failures):,} more")
    note(f"nothing was changed: {count(tried.events, 'event')} were handled and rolled back")
    return 0


def _run(
    conn: Connection[Any], args: argparse.Namespace, name: str, handler: Handler, terms: Terms
) -> int:
    from gapless.ops.replay.run import progress, run  # noqa: PLC0415 - not for --help

    begun = progress(conn, name)
    did = 0
    try:
        with Steps("replay", begun.events) as steps:
            steps.show(begun.done)

            def tell(events: int) -> None:
                nonlocal did
                did += events
                steps.show(min(begun.done + did, begun.events))

            run(conn, name, handler, terms, tell)
    except BaseException:
        note(
            f"replay {name} is not finished: {begun.done + did:,} of "
            f"{count(begun.events, 'event')} done; go on with gapless replay "
            f"{args.handler} --continue {name}, or forget it with gapless replay --remove {name}"
        )
        raise
    return _finish(conn, args, name, did)


def _finish(conn: Connection[Any], args: argparse.Namespace, name: str, did: int) -> int:
    from gapless.ops.replay.run import parts, progress  # noqa: PLC0415 - not for --help

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


def _range(conn: Connection[Any], args: argparse.Namespace, topic: str) -> dict[str, object]:
    """Return what the replay is made of, as create_replay() takes it."""
    from gapless.log.topics import require_topic  # noqa: PLC0415 - not for --help

    require_topic(conn, topic)
    stop = args.stop or Target()
    if stop.end == "earliest":
        raise UsageError("--to earliest: that is before every event")
    return {
        "group": args.name or f"replay-{uuid4().hex[:4]}",
        "topic": topic,
        "partition": args.partition,
        "from_end": args.begin.end,
        "from_offset": args.begin.offset,
        "from_time": args.begin.time,
        "to_offset": stop.offset,
        "to_time": stop.time,
    }


def _handler(args: argparse.Namespace, settings: Settings) -> Handler:
    from gapless.consume.load import load_handlers  # noqa: PLC0415 - not for --help
    from gapless.consume.terms import agree  # noqa: PLC0415 - not for --help

    found = load_handlers(args.handler)
    if len(found) > 1 and args.topic:
        found = [each for each in found if agree(each, settings).topic == args.topic] or found
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise UsageError(f"{args.handler} has several handlers: say which one of {names}")
    return found[0]


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
