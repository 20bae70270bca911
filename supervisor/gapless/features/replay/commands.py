"""The `replay` command: run a handler over a range of a topic, or try it, or list replays."""

from __future__ import annotations

import signal
from dataclasses import asdict
from typing import TYPE_CHECKING

from gapless.cli.context import load_all, open_connection
from gapless.cli.declare import Args, Command, Conn, flag, one_of, opt, partition, yes
from gapless.cli.place import point
from gapless.cli.progress import Steps, is_quiet
from gapless.cli.screen import answer, listed, remark, say
from gapless.errors import UsageError
from gapless.features.replay.lines import plan_lines, result_line, trial_lines
from gapless.features.replay.plan import (
    ReplayRange,
    choose_handler,
    create_replay,
    find_replay,
    list_replays,
    plan_replay,
    remove_replay,
    replay_terms,
)
from gapless.features.replay.run import replay_progress, run_replay
from gapless.features.replay.trial import try_replay
from gapless.ops.place import EARLIEST
from gapless.ops.text import json_text, quantity

if TYPE_CHECKING:
    from gapless.consume.terms import Terms
    from gapless.consume.user.handler import Handler

EXAMPLES = """\
Without --yes nothing is done: it says what would be handled, and with which effects. --yes makes a
scratch group, which handles each event of the range once, and moves no other group. A unit that
fails is dead at once, in the dead letter queue of the scratch group. Run --continue in several
terminals, and they share the partitions.

--dry-run calls the handler for each unit of the range and rolls everything back: effects, events
that it publishes, dead letters. Effects outside of the database stay, and so do numbers taken from
sequences. It is one transaction, whatever the range: until its end the rows that the handler wrote
are locked, and vacuum and retention wait. In memory it keeps one claim, in the server one savepoint
for each claim, and for each unit of a claim in which one fails. Take a short range (--partition,
--from, --to) where others work on the same rows.

examples:
  gapless replay shop:bill --topic orders --from 2026-03-01T00:00Z --to 2026-03-02T00:00Z
  gapless replay shop:bill --from 1200 --partition 3 --dry-run
  gapless replay shop:bill --from 1200 --partition 3 --yes
  gapless replay shop:bill --continue replay-1f3a
  gapless replay --list
  gapless replay --remove replay-1f3a
"""
command = Command("replay")


@command.main(
    opt("handler MODULE:HANDLER", "as in gapless run", nargs="?"),
    opt("--topic", "the topic (default: the handler's)"),
    partition("only this one"),
    opt(
        "--from PLACE",
        "earliest (default), an offset, or a time",
        point,
        dest="begin",
        default=EARLIEST,
    ),
    opt("--to PLACE", "before this offset or time", point, dest="stop"),
    opt("--name", "of the scratch group (default: replay- and four digits)"),
    flag("--keep", "keep the scratch group when done"),
    opt("--batch-size N", "events per claim", int),
    yes(),
    flag("--dry-run", "call the handler for all of it, and roll it back"),
    one_of(
        opt("--continue NAME", "continue with this one; needs no --yes", dest="old"),
        opt("--remove NAME", "forget this one, and its dead letters"),
        flag("--list", "list those that were not finished"),
    ),
    connects=False,
)
def _replay(args: Args) -> int:
    """Show what a replay would do, try it, or do it; continue with, remove or list replays."""
    if args.list or args.remove:
        with open_connection(load_all(args).settings, "replay") as conn:
            return _remove(conn, args) if args.remove else _list(conn, args)
    if not args.handler:
        raise UsageError("which handler? gapless replay module:handler")
    if args.dry_run and (args.apply or args.old):
        raise UsageError(
            f"--dry-run and {'--yes' if args.apply else '--continue'}: one or the other"
        )
    settings = load_all(args, "batch_size").settings
    handler = choose_handler(args.handler, settings, args.topic)
    terms = replay_terms(handler, settings, args.topic)
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.default_int_handler)
    with open_connection(settings, "replay", needs_session=True) as conn:
        if args.old:
            find_replay(conn, args.old)
            return _run(conn, args, args.old, handler, terms)
        named = {"name": args.name} if args.name else {}
        where = {"topic": terms.topic, "partition": args.partition}
        wanted = ReplayRange(**where, begin=args.begin, stop=args.stop, **named)
        if not args.apply:
            return _try(conn, args, wanted, handler, terms)
        events = create_replay(conn, wanted)
        remark(f"replay {wanted.name}: {quantity(events, 'event')} of topic {terms.topic}")
        return _run(conn, args, wanted.name, handler, terms)


def _try(conn: Conn, args: Args, wanted: ReplayRange, handler: Handler, terms: Terms) -> int:
    """Show the plan of a replay, or with --dry-run its outcome; change nothing."""
    plan = plan_replay(conn, wanted, handler, terms)
    if not args.dry_run:
        if args.json:
            say(json_text(asdict(plan), indent=2))
        else:
            say("\n".join(plan_lines(plan)))
            listed(args, plan.partitions)
        remark(
            f"nothing was done: {quantity(plan.events, 'event')} would be handled; --yes does it, "
            "--dry-run tries it and rolls it back"
        )
        return 0
    advice, quiet = "; nothing was changed", is_quiet(args)
    with Steps("dry run", plan.events, "event", advice, is_quiet=quiet) as steps:
        tried = try_replay(conn, wanted, handler, terms, progress=steps.show)
    if args.json:
        say(json_text({"dry_run": True, **asdict(tried)}, indent=2))
    else:
        say("\n".join(trial_lines(tried)))
    handled = quantity(tried.events, "event")
    remark(f"nothing was changed: {handled} were handled and rolled back")
    return 0


def _run(conn: Conn, args: Args, name: str, handler: Handler, terms: Terms) -> int:
    begun = replay_progress(conn, name)
    did = 0
    try:
        total, before, quiet = begun.events, begun.done, is_quiet(args)
        with Steps("replay", total, "event", is_quiet=quiet, before=before) as steps:

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
    return answer(args, result_line(result, did), result)


def _list(conn: Conn, args: Args) -> int:
    return listed(args, list_replays(conn), "no replay is unfinished")


def _remove(conn: Conn, args: Args) -> int:
    done = remove_replay(conn, args.remove)
    text = f"removed replay {done.name}, and {quantity(done.dead_letters, 'dead letter')}"
    return answer(args, text, removed=done.name, dead_letters=done.dead_letters)
