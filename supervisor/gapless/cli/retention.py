"""The `retention` command: what of the log may be dropped, and why the rest stays; drop it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gapless.cli.context import load_settings, open_connection
from gapless.cli.parser import add_confirm, add_json
from gapless.cli.screen import remark, say, show
from gapless.errors import UsageError
from gapless.log.retention import Chunk, Retention
from gapless.ops.retention import drop_chunks, list_chunks
from gapless.ops.text import ONLY_JSON, json_text, quantity, whole_seconds

EXAMPLES = """\
Without --apply nothing is dropped. Supervisors do it by themselves (retentionCheckS); this is for
those who want to see it, or to do it from cron. Chunks go whole, oldest first.

examples:
  gapless topics alter orders --retention 7d
  gapless retention
  gapless retention --apply
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """A line of `retention`: newest is when its newest event got its offset."""

    chunk: str
    events: int | None
    size: str
    bytes: int = field(metadata=ONLY_JSON)
    newest: datetime | None
    goes: bool
    why_it_stays: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_confirm(parser)
    add_json(parser)


def main(args: argparse.Namespace) -> int:
    """Show the chunks that are there; with --apply, drop those that may go."""
    settings = load_settings(args)
    with open_connection(args, "retention", settings) as conn:
        chunks = list_chunks(conn)
        if not (args.json and args.apply):
            rows = [_row(chunk) for chunk in chunks]
            show(ChunkRow, rows, as_json=args.json, empty="no chunk yet")
        if args.apply:
            dropped = drop_chunks(
                conn,
                dead_letter_retention_s=settings.dead_letter_retention_s,
                audit_retention_s=settings.audit_retention_s,
            )
            if args.json:
                say(json_text({"dropped": dropped}))
            remark(f"dropped the events of {quantity(len(dropped), 'chunk')}")
            return 0
    going = [chunk for chunk in chunks if chunk.goes]
    room = sum(chunk.bytes for chunk in going)
    remark(
        f"nothing was dropped: {quantity(len(going), 'chunk')} would go, which frees {_size(room)}"
        + ("; --apply does it" if going else "")
    )
    return 0


def add_retention(parser: argparse.ArgumentParser, *, overrun: bool = False) -> None:
    """Declare what a topic says of retention."""
    parser.add_argument(
        "--retention",
        metavar="AGE",
        help="keep events so long, at least: 90s, 15m, 12h, 7d, or forever",
    )
    if not overrun:
        return
    parser.add_argument(
        "--archive",
        metavar="PIPELINE",
        help="let retention wait for this pipeline, also if it never ran; none: for none",
    )
    parser.add_argument(
        "--overrun",
        metavar="GROUPS",
        help="let retention drop what these groups (commas between) have not handled; none: wait",
    )


def add_dedupe_window(parser: argparse.ArgumentParser) -> None:
    """Declare for how long a topic remembers dedupe keys."""
    parser.add_argument(
        "--dedupe-window",
        metavar="AGE",
        help="an event with a dedupe_key that is no older is a duplicate: 90s, 15m, 12h "
        "(a new topic: 7d)",
    )


def changed(args: argparse.Namespace, before: Retention) -> Retention:
    """Return a topic's retention with what the command line says. Raises UsageError."""
    return Retention(
        keep_s=before.keep_s if args.retention is None else parse_age(args.retention),
        archive=before.archive if args.archive is None else _none(args.archive),
        overrun=before.overrun if args.overrun is None else _names(args.overrun),
    )


def parse_age(text: str) -> int | None:
    """Parse the value of --retention; None is forever. Raises UsageError."""
    if text == "forever":
        return None
    if (seconds := whole_seconds(text)) is None:
        raise UsageError(
            f"--retention {text!r}: a whole number with its unit (90s, 15m, 12h, 7d), or forever"
        )
    return seconds


def parse_window(text: str | None) -> int | None:
    """Parse the value of --dedupe-window; None: it was not given. Raises UsageError."""
    if text is None:
        return None
    if (seconds := whole_seconds(text)) is None:
        raise UsageError(
            f"--dedupe-window {text!r}: a whole number with its unit (90s, 15m, 12h, 7d)"
        )
    return seconds


def _row(chunk: Chunk) -> ChunkRow:
    why = "; ".join(chunk.reasons)
    return ChunkRow(
        chunk=chunk.chunk,
        events=chunk.events,
        size=_size(chunk.bytes),
        bytes=chunk.bytes,
        newest=chunk.newest,
        goes=chunk.goes,
        why_it_stays=why if why or chunk.goes else "an older chunk stays",
    )


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} TB"


def _none(text: str) -> str | None:
    return None if text == "none" else text


def _names(text: str) -> Sequence[str]:
    names: list[Any] = [] if text == "none" else text.split(",")
    return tuple(name.strip() for name in names if name.strip())
