"""The `seek` command: move a group elsewhere in the log; without --yes only show the effects."""

from __future__ import annotations

import signal

from gapless.cli.context import server_dsn
from gapless.cli.declare import Args, Argument, Command, Conn, flag, one_of, opt, together, yes
from gapless.cli.parser import whole
from gapless.cli.place import RANGE_OR_EVENT, moment, transaction_id
from gapless.cli.screen import listed, remark
from gapless.errors import UsageError
from gapless.ops.control import Move, SeekStage, plan_seek, seek, seek_paused
from gapless.ops.place import Point
from gapless.ops.text import quantity

EXAMPLES = """\
Without --yes nothing is changed. A unit is never cut: an offset inside one means its first event.
Units that are handled again leave the dead letter queue; skipped ones do not enter it.

examples:
  gapless seek billing --time 2026-03-01T12:00:00Z
  gapless seek billing/orders/3@1200 --pause --yes
  gapless seek billing --latest --yes
"""
_TOLD: dict[SeekStage, str] = {
    "waiting": "paused; waiting until the workers have finished their batch",
    "undone": "nothing was moved; the group continues as it was",
    "still-paused": "could not end the pause: group {} may still be paused, and nothing moved; "
    "gapless resume ends it",
}
command = Command("seek")


def _point(args: Args) -> Point | None:
    """Return the target that exactly one option gives; None: the place gives it."""
    said = {name: getattr(args, name) for name in ("end", "offset", "time", "transaction")}
    has_one = any(value is not None for value in said.values())
    if has_one and args.group.offset is not None:
        raise UsageError(f"{args.group} says where to: leave the other option out")
    if not has_one and args.group.offset is None:
        raise UsageError(
            "where to? --earliest, --latest, --offset, --time, --transaction, or "
            "GROUP/TOPIC/PARTITION@OFFSET"
        )
    return Point(**said) if has_one else None


def _end(name: str, about: str) -> Argument:
    return opt(f"--{name}", about, dest="end", action="store_const", const=name)


_WHERE_TO = together(
    "to",
    _point,
    one_of(
        _end("earliest", "the oldest event there is"),
        _end("latest", "events published from now on"),
        opt("--offset N", "this offset, as behind an @", whole(1)),
        opt(
            "--time TS",
            "the first event published then or later; UTC unless it says otherwise",
            moment,
        ),
        opt(
            "--transaction ID",
            "the first event of this transaction, in each partition that has one",
            transaction_id,
        ),
        title="where to (one of)",
    ),
)


@command.main(
    RANGE_OR_EVENT,
    _WHERE_TO,
    yes(),
    flag("--pause", "pause the group meanwhile, if workers are at it"),
    opt(
        "--timeout S",
        "with --pause: wait so long for the workers to finish their batch (default: 60)",
        whole(1, 86400),
        default=60,
    ),
)
def _seek(conn: Conn, args: Args) -> int:
    if args.apply and args.pause:
        moves = _under_pause(conn, args)
    else:
        moves = (seek if args.apply else plan_seek)(conn, args.place, args.to)
    again, skipped = sum(move.again for move in moves), sum(move.skipped for move in moves)
    listed(args, moves)
    if args.apply:
        remark(f"moved: {quantity(again, 'event')} to be handled again, {skipped:,} skipped")
    else:
        remark(
            f"nothing was changed: {quantity(again, 'event')} would be handled again, "
            f"{skipped:,} skipped; --yes does it"
            + (" (with --pause: workers are at it)" if any(move.worker for move in moves) else "")
        )
    return 0


def _under_pause(conn: Conn, args: Args) -> list[Move]:
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.default_int_handler)
    return seek_paused(
        conn,
        args.place,
        args.to,
        dsn=server_dsn(args.loaded.settings),
        timeout_s=args.timeout,
        tell=lambda stage: remark(_TOLD[stage].format(args.place.group)),
    )
