"""The `seek` command: move a group elsewhere in the log; without --yes only say what it means."""

from __future__ import annotations

import signal

from gapless import ops
from gapless.cli.context import server_dsn
from gapless.cli.declare import Args, Command, Conn, flag, one_of, opt, yes
from gapless.cli.parser import whole
from gapless.cli.place import RANGE, moment, place_of, transaction_id
from gapless.cli.screen import listed, remark
from gapless.errors import UsageError
from gapless.ops.control import SeekStage
from gapless.ops.text import quantity

EXAMPLES = """\
Without --yes nothing is changed. A unit is never cut: an offset inside one means its first event.
What is handled again leaves the dead letter queue; what is skipped does not enter it.

examples:
  gapless seek billing --time 2026-03-01T12:00:00Z
  gapless seek billing/orders/3@1200 --pause --yes
  gapless seek billing --latest --yes
"""
_ENDS = {"earliest": "the oldest event there is", "latest": "what is published from now on"}
command = Command("seek")


def _point(args: Args) -> ops.Point | None:
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
    return ops.Point(**said) if has_one else None


@command.main(
    *RANGE,
    one_of(
        *(
            opt(f"--{end}", meaning, dest="end", action="store_const", const=end)
            for end, meaning in _ENDS.items()
        ),
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
    yes(),
    flag("--pause", "pause the group meanwhile, if workers are at it"),
    opt(
        "--timeout S",
        "with --pause: wait so long for the workers to finish their batch (default: 60)",
        whole(1, 86400),
        default=60,
    ),
    check=lambda args: (place_of(args), _point(args)),
)
def _seek(conn: Conn, args: Args) -> int:
    place, to = place_of(args), _point(args)
    if args.apply and args.pause:
        moves = _under_pause(conn, args)
    else:
        moves = ops.seek(conn, place, to) if args.apply else ops.plan_seek(conn, place, to)
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


def _under_pause(conn: Conn, args: Args) -> list[ops.Move]:
    place = place_of(args)
    told: dict[SeekStage, str] = {
        "waiting": "paused; waiting until the workers have finished their batch",
        "undone": "nothing was moved; the group continues as it was",
        "still-paused": f"could not end the pause: group {place.group} may still be paused, "
        "and nothing moved; gapless resume ends it",
    }
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.default_int_handler)
    return ops.seek_paused(
        conn,
        place,
        _point(args),
        dsn=server_dsn(args, args.loaded.settings),
        timeout_s=args.timeout,
        tell=lambda stage: remark(told[stage]),
    )
