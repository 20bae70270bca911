"""The `status` command: show members, partitions, lag and dead letters, once or live."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from gapless.cli.context import load_all, open_connection
from gapless.cli.declare import Args, Command, Conn, flag, opt
from gapless.cli.parser import age_s, number
from gapless.cli.screen import listed, remark, say
from gapless.errors import GaplessError, UsageError
from gapless.ops.happened import happened_since
from gapless.ops.text import json_text
from gapless.status import Snapshot, snapshot, to_document

EXAMPLES = """\
It reads the database alone, so it works from any machine.

examples:
  gapless status
  gapless status --watch
  gapless status --json | jq .totals.lag
  gapless status --watch --json | jq -c .happenings[]
  gapless status --since 1h
"""
_LINES_MIN = 12  # of one snapshot: it may scroll
command = Command("status")


@command.main(
    flag("--json", "print JSON; with --watch one document a look and line"),
    flag("-w --watch", "stay, until q or Ctrl-C"),
    opt(
        "--interval S",
        "seconds between two looks of --watch (default: 1)",
        number(0.1, 3600, "a number of seconds"),
        default=1.0,
    ),
    opt(
        "--since AGE",
        "the past since then instead, such as 90s, 15m, 1h, 7d: the course of each group, and "
        "happenings (evictions, hand-overs, errors, dead letters, redrives, actions of people)",
        age_s,
    ),
    json=False,
    connects=False,
)
def _status(args: Args) -> int:
    """Print one look, or happenings, or show the live console."""
    connect = partial(open_connection, load_all(args).settings, "status")
    if args.since is not None:
        if args.watch:
            raise UsageError("--since looks once: leave --watch out")
        with connect(standby=True) as conn:
            _print_past(conn, args)
        return 0
    # Each output imports only its own needs: JSON needs no rich, one snapshot no terminal.
    if args.watch and args.json:
        from gapless.status.loop import stream  # noqa: PLC0415

        stream(connect, _print_line, interval_s=args.interval)
    if args.watch:
        from gapless.ops.dlq.letters import LETTERS  # noqa: PLC0415
        from gapless.status.loop import watch  # noqa: PLC0415

        return watch(connect, LETTERS, interval_s=args.interval)
    with connect() as conn:
        look = snapshot(conn)
    if args.json:
        say(json_text(to_document(look), indent=2))
    else:
        _print_page(look)
    return 0


def _print_past(conn: Conn, args: Args) -> None:
    """Print the course of each group, as far as it was recorded, and the happenings."""
    from gapless.ops.happened import ROWS_MAX  # noqa: PLC0415 - a snapshot needs none of it
    from gapless.status.past import recorded_lines  # noqa: PLC0415

    found = happened_since(conn, args.since)
    groups: Sequence[Any] = ()
    try:
        groups = recorded_lines(conn, args.since)
    except GaplessError as error:
        remark(str(error))
    if args.json:
        past = {"groups": groups, "happenings": found}
        say(json_text({name: [asdict(row) for row in rows] for name, rows in past.items()}))
    else:
        listed(args, groups, first=["trend"])
        if groups and found:
            say()
        listed(args, found, "nothing happened that the tables tell of")
    if len(found) == ROWS_MAX:
        remark(f"there may be more: these are the newest {ROWS_MAX}")


def _print_page(look: Snapshot) -> None:
    """Print the console's first page: on a terminal as much as fits it, else all of it."""
    from gapless.status.draw import one_look  # noqa: PLC0415 - JSON needs none of it

    if not sys.stdout.isatty():
        say("\n".join(line.plain for line in one_look(look)))
        return
    from rich.console import Console  # noqa: PLC0415 - a pipe needs none of it

    columns, lines = os.get_terminal_size(sys.stdout.fileno())  # not the environment's values
    height = max(_LINES_MIN, (lines or 24) - 1)  # less a line for its prompt
    for line in one_look(look, width=columns or 80, height=height):
        Console().print(line, soft_wrap=True)


def _print_line(document: dict[str, Any]) -> None:
    say(json_text(document))
    sys.stdout.flush()
