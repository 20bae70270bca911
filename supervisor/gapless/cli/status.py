"""The `status` command: one look at members, partitions, lag and dead letters, or a live one."""

from __future__ import annotations

import argparse

from gapless.cli.context import load_settings, open_connection
from gapless.cli.entries import terminal_columns
from gapless.cli.screen import say, to_json

HELP = "members, partitions, lag, dead letters: now, or live with --watch"
EXAMPLES = """\
It reads the database alone, so it works from any machine.

examples:
  gapless status
  gapless status --watch
  gapless status --json | jq .totals.lag
"""
_INTERVAL_S_MIN = 0.1
_INTERVAL_S_MAX = 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of tables")
    form.add_argument("-w", "--watch", action="store_true", help="stay, until q or Ctrl-C")
    parser.add_argument(
        "--interval",
        type=_interval_s,
        default=1.0,
        metavar="S",
        help="seconds between two looks of --watch (default: 1)",
    )


def main(args: argparse.Namespace) -> int:
    """Print one look, or show the live console."""
    from gapless.status import snapshot, to_document, to_text, watch  # noqa: PLC0415 - not for --help

    settings = load_settings(args)
    if args.watch:
        return watch(lambda: open_connection(args, "status", settings), interval_s=args.interval)
    with open_connection(args, "status", settings) as conn:
        look = snapshot(conn)
    if args.json:
        say(to_json(to_document(look), indent=2))
    else:
        say(to_text(look, width=terminal_columns()).rstrip("\n"))
    return 0


def _interval_s(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not _INTERVAL_S_MIN <= seconds <= _INTERVAL_S_MAX:
        raise argparse.ArgumentTypeError(
            f"{text} must be from {_INTERVAL_S_MIN:g} to {_INTERVAL_S_MAX:g}"
        )
    return seconds
