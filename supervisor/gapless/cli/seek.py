"""The `seek` command: move a group elsewhere in the log; without --yes only say what it means."""

from __future__ import annotations

import argparse
import signal
from typing import TYPE_CHECKING, Any

from gapless.cli.context import load_settings, open_connection, server_dsn
from gapless.cli.parser import add_confirm, add_json, whole
from gapless.cli.place import add_range, moment, place_of, transaction_id
from gapless.cli.screen import remark, show
from gapless.errors import UsageError
from gapless.ops.control import Move, SeekStage, plan_seek, seek, seek_paused
from gapless.ops.place import GroupPlace, Point
from gapless.ops.text import quantity

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.settings import Settings

EXAMPLES = """\
Without --yes nothing is changed. A unit is never cut: an offset inside one means its first event.
What is handled again leaves the dead letter queue; what is skipped does not enter it.

examples:
  gapless seek billing --time 2026-03-01T12:00:00Z
  gapless seek billing/orders/3@1200 --pause --yes
  gapless seek billing --latest --yes
"""
_ENDS = {"earliest": "the oldest event there is", "latest": "what is published from now on"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_range(parser)
    place = parser.add_argument_group("where to (one of)").add_mutually_exclusive_group()
    for end, meaning in _ENDS.items():
        place.add_argument(f"--{end}", dest="end", action="store_const", const=end, help=meaning)
    place.add_argument("--offset", type=whole(1), metavar="N", help="this offset, as behind an @")
    place.add_argument(
        "--time",
        type=moment,
        metavar="TS",
        help="the first event published then or later; UTC unless it says otherwise",
    )
    place.add_argument(
        "--transaction",
        type=transaction_id,
        metavar="ID",
        help="the first event of this transaction, in each partition that has one",
    )
    add_confirm(parser)
    parser.add_argument(
        "--pause", action="store_true", help="pause the group meanwhile, if workers are at it"
    )
    parser.add_argument(
        "--timeout",
        type=whole(1, 86400),
        default=60,
        metavar="S",
        help="with --pause: wait so long for the workers to finish their batch (default: 60)",
    )
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Show what a seek would do, or do it."""
    place, to = place_of(args), _point(args)
    settings = load_settings(args)
    with open_connection(args, "seek", settings) as conn:
        if args.apply and args.pause:
            moves = _under_pause(args, conn, settings, place, to)
        else:
            moves = seek(conn, place, to) if args.apply else plan_seek(conn, place, to)
    show(Move, moves, as_json=args.json)
    again, skipped = sum(move.again for move in moves), sum(move.skipped for move in moves)
    if args.apply:
        remark(f"moved: {quantity(again, 'event')} to be handled again, {skipped:,} skipped")
    else:
        remark(
            f"nothing was changed: {quantity(again, 'event')} would be handled again, "
            f"{skipped:,} skipped; --yes does it"
            + (" (with --pause: workers are at it)" if any(move.worker for move in moves) else "")
        )
    return 0


def _point(args: argparse.Namespace) -> Point | None:
    """Return where to go: what exactly one of the options says; None: the place says it."""
    said = {name: getattr(args, name) for name in ("end", "offset", "time", "transaction")}
    has_one = any(value is not None for value in said.values())
    if has_one and args.place.offset is not None:
        raise UsageError(f"{args.place} says where to: leave the other option out")
    if not has_one and args.place.offset is None:
        raise UsageError(
            "where to? --earliest, --latest, --offset, --time, --transaction, or "
            "GROUP/TOPIC/PARTITION@OFFSET"
        )
    return Point(**said) if has_one else None


def _under_pause(
    args: argparse.Namespace,
    conn: Connection[Any],
    settings: Settings,
    place: GroupPlace,
    to: Point | None,
) -> list[Move]:
    told: dict[SeekStage, str] = {
        "waiting": "paused; waiting until the workers have finished their batch",
        "undone": "nothing was moved; the group continues as it was",
        "still-paused": f"could not end the pause: group {place.group} may still be paused, "
        "and nothing moved; gapless resume ends it",
    }
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.default_int_handler)
    return seek_paused(
        conn,
        place,
        to,
        dsn=server_dsn(args, settings),
        timeout_s=args.timeout,
        tell=lambda stage: remark(told[stage]),
    )
