"""The `tail` command: the newest events of a topic, or all from an offset on, or as they come."""

from __future__ import annotations

import argparse
import shutil
import sys
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from gapless.cli.declare import Args, Command, Conn, flag, opt, partition
from gapless.cli.filters import FILTER, filter_options
from gapless.cli.parser import whole
from gapless.cli.screen import say
from gapless.db.listen import listen, wait
from gapless.log.catch_up import sequence_if_alone
from gapless.log.filters import ALL, Filter, check_filter, filter_of
from gapless.log.tail import Tail, choose_partitions
from gapless.log.topics import require_topic
from gapless.ops.entries import entry_json, entry_line

if TYPE_CHECKING:
    from gapless.log.topics import Topic

EXAMPLES = """\
A line is partition@offset, time (UTC), key, type, payload. It is a look: no group's offset moves.

examples:
  gapless tail orders -f
  gapless tail orders -n 100 --key AA
  gapless tail orders -f --type 'order.*' --where '$.total > 100'
  gapless tail orders --from earliest --json | jq .payload
  gapless tail orders --partition 3 --from 17 -n 1 --full
"""
_NEWEST = 10
_OWN_POLL_S = 0.25  # nobody notifies when nobody but us sequences


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


command = Command("tail")


@command.main(
    "topic",
    opt(
        "-n N",
        f"the newest N events (default: {_NEWEST}); with --from, the first N from there",
        whole(0, 1_000_000),
        dest="count",
    ),
    flag("-f --follow", "continue with what comes"),
    opt("--from WHERE", "earliest, latest, or an offset, in each partition", _start, dest="start"),
    partition(),
    opt("--key", "only events with this key"),
    *FILTER,
    flag("--full", "do not cut lines to the terminal's width"),
    check=_only,
)
def _tail(conn: Conn, args: Args) -> int:
    """Print what is there; with -f until Ctrl-C."""
    only, poll_s = _only(args), args.loaded.settings.wait_period_ms / 1000
    topic = require_topic(conn, args.topic)
    choose = partial(choose_partitions, conn, topic, key=args.key, only=args.partition)
    partitions = choose()
    short = None if args.json else _columns(args)
    check_filter(conn, only)
    tail = Tail(conn, topic, partitions, key=args.key, only=only, payload_chars=short)
    if args.follow:
        _listen(conn, topic, partitions)  # before the first look, so that nothing is missed
    alone = sequence_if_alone(conn)
    _set_start(tail, args)
    limit = args.count if args.start is not None else None
    printed = _print(tail, args, limit)
    while args.follow and (limit is None or printed < limit):
        wait(conn, _OWN_POLL_S if alone else poll_s)
        alone = sequence_if_alone(conn)
        _listen(conn, topic, tail.follow(choose()))
        printed += _print(tail, args, None if limit is None else limit - printed)
    return 0


def _set_start(tail: Tail, args: Args) -> None:
    if args.start is None:
        tail.start_behind(_NEWEST if args.count is None else args.count)
    elif args.start == "latest":
        tail.start_behind(0)
    else:
        tail.start_at(1 if args.start == "earliest" else args.start)


def _columns(args: Args) -> int | None:
    """Return how wide a line may be; None: as wide as it is."""
    if args.full or not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def _print(tail: Tail, args: Args, limit: int | None) -> int:
    """Print what is new; return how many events that was."""
    printed = 0
    columns = _columns(args)
    for entry in islice(tail.read(), limit):
        say(entry_json(args.topic, entry) if args.json else entry_line(entry, columns=columns))
        printed += 1
    sys.stdout.flush()
    return printed


def _listen(conn: Conn, topic: Topic, partitions: list[int]) -> None:
    for each in partitions:
        listen(conn, f"gapless_p_{topic.topic_id}_{each}")
