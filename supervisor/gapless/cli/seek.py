"""The `seek` command: move a group elsewhere in the log; without --yes only say what it means.

With --pause: pause (committed), wait until the workers have let go, then seek and end that pause in
one transaction. So a kill leaves one of three states: nothing happened; paused and nothing moved
(gapless resume ends it, gapless status shows it); all done.
"""

from __future__ import annotations

import argparse
import signal
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from gapless.cli.context import open_connection
from gapless.cli.parser import add_json, whole
from gapless.cli.place import add_range, moment, range_of, transaction
from gapless.cli.screen import note, show
from gapless.db.queries import query
from gapless.errors import GaplessError, UsageError
from gapless.ops.rows import rows
from gapless.ops.text import count

if TYPE_CHECKING:
    from psycopg import Connection

HELP = "move a group to another place in the log: handle again, or skip"
EXAMPLES = """\
Without --yes nothing is changed. A unit is never cut: an offset inside one means its first event.
What is handled again leaves the dead letter queue; what is skipped does not enter it.

examples:
  gapless seek billing --time 2026-03-01T12:00:00Z
  gapless seek billing/orders/3@1200 --pause --yes
  gapless seek billing --latest --yes
"""
_ENDS = {"earliest": "the oldest event there is", "latest": "what is published from now on"}
_LOOK_AGAIN_S = 0.05
_BUSY = "GL423"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What happens to a partition: `again` and `skipped` count events, `worker`: one owns it."""

    topic: str
    partition: int
    current_offset: int
    new_offset: int
    again: int
    skipped: int
    dead_letters: int
    worker: bool


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
        type=transaction,
        metavar="ID",
        help="the first event of this transaction, in each partition that has one",
    )
    parser.add_argument("--yes", "--apply", dest="apply", action="store_true", help="do it")
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
    what = {**range_of(args), **_target(args)}
    with open_connection(args, "seek") as conn:
        moves = rows(conn, Move, query("control", "plan_seek"), **what)
        if args.apply and args.pause:
            moves = _Paused(args, conn, what).seek()
        elif args.apply:
            moves = rows(conn, Move, query("control", "seek"), **what, holder=None)
    show(Move, moves, as_json=args.json)
    again, skipped = sum(move.again for move in moves), sum(move.skipped for move in moves)
    if args.apply:
        note(f"moved: {count(again, 'event')} to be handled again, {skipped:,} skipped")
    else:
        note(
            f"nothing was changed: {count(again, 'event')} would be handled again, "
            f"{skipped:,} skipped; --yes does it"
            + (" (with --pause: workers are at it)" if any(move.worker for move in moves) else "")
        )
    return 0


def _target(args: argparse.Namespace) -> dict[str, object]:
    """Return where to go: what exactly one of the options says, or the place itself."""
    said = {name: getattr(args, name) for name in ("end", "offset", "time", "transaction")}
    has_one = any(value is not None for value in said.values())
    offset = args.place.offset
    if has_one and offset is not None:
        raise UsageError(f"{args.place} says where to: leave the other option out")
    if not has_one and offset is None:
        raise UsageError(
            "where to? --earliest, --latest, --offset, --time, --transaction, or "
            "GROUP/TOPIC/PARTITION@OFFSET"
        )
    return said if has_one else {**said, "offset": offset}


class _Paused:
    """A seek under a pause of its own, which ends with it, or when it fails or is interrupted."""

    def __init__(
        self, args: argparse.Namespace, conn: Connection[Any], what: dict[str, Any]
    ) -> None:
        self._args = args
        self._conn = conn
        self._what = what
        self._holder = uuid4()

    def seek(self) -> list[Move]:
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.default_int_handler)
        try:
            self._conn.execute(query("control", "hold"), self._own(reason="gapless seek --pause"))
            return self._when_free()
        except BaseException:
            self._undo()
            raise

    def _when_free(self) -> list[Move]:
        import psycopg  # noqa: PLC0415 - not for --help

        give_up_s = monotonic() + self._args.timeout
        told = False
        while True:
            try:
                return rows(
                    self._conn, Move, query("control", "seek"), **self._what, holder=self._holder
                )
            except psycopg.Error as error:
                if error.sqlstate != _BUSY:
                    raise
                if monotonic() > give_up_s:
                    raise GaplessError(
                        f"a worker has not let go within {self._args.timeout} s: nothing was "
                        "changed; gapless status shows who it is, --timeout waits longer"
                    ) from error
            if not told:
                note("paused; waiting until the workers have finished their batch")
                told = True
            sleep(_LOOK_AGAIN_S)

    def _undo(self) -> None:
        """End our pause, from a session of its own: the first may be in the middle of anything."""
        ended: Any = None
        with suppress(Exception), open_connection(self._args, "seek") as conn:
            ended = conn.execute(query("control", "resume"), self._own()).fetchone()
        if ended is None:
            note(
                f"could not end the pause: group {self._args.place.group} may still be paused, "
                "and nothing moved; gapless resume ends it"
            )
        elif ended[0]:
            note("nothing was moved; the group goes on as it was")

    def _own(self, **more: object) -> dict[str, UUID | object]:
        return {**range_of(self._args), "holder": self._holder, **more}
