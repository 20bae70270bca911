"""The `tail` command: the newest events of a topic, all from an offset on, or new ones live."""

from __future__ import annotations

import argparse
import shutil
import sys

from gapless.cli.declare import Args, Command, Conn, flag, opt, partition, together
from gapless.cli.parser import whole
from gapless.cli.screen import say
from gapless.features.filters.asked import FILTER, filter_options
from gapless.log.filter import ALL, Filter, filter_of
from gapless.ops.entries import entry_json, entry_line
from gapless.ops.tail import NEWEST, TailOptions, read_tail

EXAMPLES = """\
A line is partition@offset, time (UTC), key, type, payload. It is a look: no group's offset moves.

examples:
  gapless tail orders -f
  gapless tail orders -n 100 --key AA
  gapless tail orders -f --type 'order.*' --where '$.total > 100'
  gapless tail orders --from earliest --json | jq .payload
  gapless tail orders --partition 3 --from 17 -n 1 --full
"""
command = Command("tail")


def _start(text: str) -> str | int:
    if text in {"earliest", "latest"}:
        return text
    try:
        offset: int = whole(1)(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not earliest, latest, or an offset from 1"
        ) from None
    return offset


def _only(args: Args) -> Filter:
    return filter_of(**filter_options(args)) or ALL


@command.main(
    "topic",
    opt(
        "-n N",
        f"the newest N events (default: {NEWEST}); with --from, the first N from there",
        whole(0, 1_000_000),
        dest="count",
    ),
    flag("-f --follow", "continue with new events"),
    opt("--from WHERE", "earliest, latest, or an offset, in each partition", _start, dest="start"),
    partition(),
    opt("--key", "only events with this key"),
    together("only", _only, *FILTER),
    flag("--full", "do not cut lines to the terminal's width"),
)
def _tail(conn: Conn, args: Args) -> int:
    """Print what is there; with -f until Ctrl-C."""
    names = ("start", "count", "key", "partition", "only")
    chars = None if args.json else _columns(args)
    options = TailOptions(**{name: args.given[name] for name in names}, payload_chars=chars)
    poll_s = args.loaded.settings.wait_period_ms / 1000
    for entry in read_tail(conn, args.topic, options, follow=args.follow, poll_s=poll_s):
        if entry is None:
            sys.stdout.flush()
        elif args.json:
            say(entry_json(args.topic, entry))
        else:
            say(entry_line(entry, columns=_columns(args)))
    return 0


def _columns(args: Args) -> int | None:
    """Return the width that a line may have; None: any."""
    if args.full or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns
