"""`gapless publish --wait`: until what was published has offsets, or a group has handled it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.errors import InsufficientPrivilege

from gapless.cli.context import where
from gapless.cli.parser import Parser, whole
from gapless.cli.screen import remark
from gapless.errors import GaplessError, UsageError
from gapless.log.catch_up import is_sequenced, sequence_if_alone, wait_until_sequenced
from gapless.log.wait import wait_for
from gapless.ops.text import quantity

if TYPE_CHECKING:
    from uuid import UUID

    from psycopg import Connection

_WAIT_S = 60
_OFFSETS = "offsets"


class Stored(NamedTuple):
    """What is there now. xid: of the last transaction whose events get their offsets at once.

    transaction_ids: under which the events are found; none if nothing was stored.
    """

    xid: int | None
    transaction_ids: Collection[UUID]


def add_wait(parser: Parser) -> None:
    """Declare --wait and --timeout."""
    parser.add_half_flag(
        "--wait",
        "group:",
        _OFFSETS,
        metavar="group:NAME",
        type=_awaited,
        help="return when that group has handled the events; without a group, when they have "
        "offsets. Does the sequencer's work if nobody does",
    )
    parser.add_argument(
        "--timeout",
        type=whole(1, 86_400),
        metavar="S",
        help=f"with --wait: fail after S seconds (default: {_WAIT_S}); the events stay published",
    )


def awaited_group(args: argparse.Namespace) -> str | None:
    """Return the group to wait for, if there is one."""
    if args.timeout is not None and not args.wait:
        raise UsageError("--timeout is for --wait")
    return args.wait.removeprefix("group:") if args.wait not in (None, _OFFSETS) else None


def refuse_blind_wait(conn: Connection[Any]) -> None:
    """Find out before anything is published whether this role may see the sequencer's work."""
    try:
        is_sequenced(conn, 3)
        sequence_if_alone(conn)
    except InsufficientPrivilege as error:
        raise UsageError(
            f"--wait: {where()} may publish, but not look at the sequencer: grant it "
            "gapless_consumer, or leave --wait out; nothing was published"
        ) from error


def wait_until_handled(
    conn: Connection[Any], stored: Stored, group: str | None, timeout_s: int | None
) -> None:
    """Wait for a group, or without one for offsets, so many seconds at most; None: 60."""
    timeout_s = timeout_s or _WAIT_S
    sys.stdout.flush()  # what is published has its name, even if the wait is cut off
    give_up_s = monotonic() + timeout_s
    if stored.xid is not None:
        wait_until_sequenced(conn, stored.xid, timeout_s=timeout_s)
    if group is None:
        if stored.xid is not None:
            remark("all of it has offsets")
        return
    states = [
        wait_for(conn, group, transaction_id, give_up_s - monotonic())
        for transaction_id in stored.transaction_ids
    ]
    if dead := states.count("dead"):
        raise GaplessError(
            f"group {group} has dead letters of {quantity(dead, 'transaction')} of it: "
            f"gapless dlq list --group {group}"
        )
    if states:
        remark(f"group {group} has handled all of it")


def _awaited(text: str) -> str:
    if text != _OFFSETS and not text.removeprefix("group:"):
        raise argparse.ArgumentTypeError("of which group? Write --wait group:NAME")
    if text != _OFFSETS and not text.startswith("group:"):
        raise argparse.ArgumentTypeError(f"{text!r}: write --wait, or --wait group:NAME")
    return text
