"""The options of `gapless replay`, and what it says in the end."""

from __future__ import annotations

import argparse
import signal
from typing import TYPE_CHECKING, Any

from gapless.cli.context import load_settings, open_connection, show_found
from gapless.cli.parser import add_confirm, add_json, add_partition
from gapless.cli.place import point
from gapless.cli.progress import Steps
from gapless.cli.replay.report import print_plan, print_result, print_trial
from gapless.cli.screen import answer, remark
from gapless.errors import UsageError
from gapless.ops.place import EARLIEST
from gapless.ops.replay.plan import (
    ReplayInfo,
    ReplayRange,
    choose_handler,
    create_replay,
    find_replay,
    list_replays,
    plan_replay,
    remove_replay,
    replay_terms,
)
from gapless.ops.replay.run import replay_progress, run_replay
from gapless.ops.replay.trial import try_replay
from gapless.ops.text import quantity

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.consume.terms import Terms
    from gapless.consume.user.handler import Handler

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("handler", nargs="?", metavar="MODULE:HANDLER", help="as in gapless run")
    parser.add_argument("--topic", help="the topic (default: the handler's)")
    add_partition(parser)
    parser.add_argument(
        "--from",
        dest="begin",
        type=point,
        metavar="PLACE",
        default=EARLIEST,
        help="earliest (default), an offset, or a time",
    )
    parser.add_argument(
        "--to", dest="stop", type=point, metavar="PLACE", help="before this offset or time"
    )
    parser.add_argument("--name", help="of the scratch group (default: replay- and four digits)")
    parser.add_argument("--keep", action="store_true", help="keep the scratch group when done")
    parser.add_argument("--batch-size", type=int, metavar="N", help="events per claim")
    add_confirm(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help="call the handler for all of it, and roll it back"
    )
    other = parser.add_mutually_exclusive_group()
    other.add_argument(
        "--continue", dest="old", metavar="NAME", help="continue with this one; needs no --yes"
    )
    other.add_argument("--remove", metavar="NAME", help="forget this one, and its dead letters")
    other.add_argument("--list", action="store_true", help="list those that were not finished")
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Show what a replay would do, try it, or do it; continue with, remove or list replays."""
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
    handler = choose_handler(args.handler, settings, args.topic)
    terms = replay_terms(handler, settings, args.topic)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.default_int_handler)
    with open_connection(args, "replay", settings) as conn:
        if args.old:
            find_replay(conn, args.old)
            return _run(conn, args, args.old, handler, terms)
        named = {"name": args.name} if args.name else {}
        wanted = ReplayRange(
            topic=terms.topic,
            partition=args.partition,
            begin=args.begin,
            stop=args.stop,
            **named,
        )
        if not args.apply:
            return _try(conn, args, wanted, handler, terms)
        events = create_replay(conn, wanted)
        remark(f"replay {wanted.name}: {quantity(events, 'event')} of topic {terms.topic}")
        return _run(conn, args, wanted.name, handler, terms)


def _try(
    conn: Connection[Any],
    args: argparse.Namespace,
    wanted: ReplayRange,
    handler: Handler,
    terms: Terms,
) -> int:
    """Show what would be done, or with --dry-run what would become of it; change nothing."""
    plan = plan_replay(conn, wanted, handler, terms)
    if not args.dry_run:
        print_plan(plan, as_json=args.json)
        return 0
    with Steps("dry run", plan.events, "; nothing was changed") as steps:
        tried = try_replay(conn, wanted, handler, terms, progress=steps.show)
    print_trial(tried, as_json=args.json)
    return 0


def _run(
    conn: Connection[Any], args: argparse.Namespace, name: str, handler: Handler, terms: Terms
) -> int:
    begun = replay_progress(conn, name)
    did = 0
    try:
        with Steps("replay", begun.events) as steps:
            steps.show(begun.done)

            def progress(events: int) -> None:
                nonlocal did
                did += events
                steps.show(min(begun.done + did, begun.events))

            result = run_replay(conn, name, handler, terms, keep=args.keep, progress=progress)
    except BaseException:
        remark(
            f"replay {name} is not finished: {begun.done + did:,} of "
            f"{quantity(begun.events, 'event')} done; continue with gapless replay "
            f"{args.handler} --continue {name}, or forget it with gapless replay --remove {name}"
        )
        raise
    print_result(result, did, as_json=args.json)
    return 0


def _list(args: argparse.Namespace) -> int:
    return show_found(args, "replay", ReplayInfo, list_replays, "no replay is unfinished")


def _remove(args: argparse.Namespace) -> int:
    with open_connection(args, "replay") as conn:
        done = remove_replay(conn, args.remove)
    text = f"removed replay {done.name}, and {quantity(done.dead_letters, 'dead letter')}"
    answer(args, text, removed=done.name, dead_letters=done.dead_letters)
    return 0
