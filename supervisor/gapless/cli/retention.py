"""The `retention` command: what of the log may be dropped, and why the rest stays; drop it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gapless import ops
from gapless.cli.declare import Args, Command, Conn, opt, yes
from gapless.cli.screen import listed, remark, say
from gapless.errors import UsageError
from gapless.ops.retention import chunk_row
from gapless.ops.text import json_text, quantity, size_text, whole_seconds

EXAMPLES = """\
Without --apply nothing is dropped. Supervisors do it by themselves (retentionCheckS); this is for
those who want to see it, or to do it from cron. Chunks go whole, oldest first.

examples:
  gapless topics alter orders --retention 7d
  gapless retention
  gapless retention --apply
"""


RETENTION = opt("--retention AGE", "keep events so long, at least: 90s, 15m, 12h, 7d, or forever")
RETENTION_WAITS = (
    opt(
        "--archive PIPELINE",
        "let retention wait for this pipeline, also if it never ran; none: for none",
    ),
    opt(
        "--overrun GROUPS",
        "let retention drop what these groups (commas between) have not handled; none: wait",
    ),
)
DEDUPE_WINDOW = opt(
    "--dedupe-window AGE",
    "an event with a dedupe_key that is no older is a duplicate: 90s, 15m, 12h (a new topic: 7d)",
)
command = Command("retention")


@command.main(yes())
def _retention(conn: Conn, args: Args) -> int:
    settings, chunks = args.loaded.settings, ops.list_chunks(conn)
    if not (args.json and args.apply):
        listed(args, [chunk_row(chunk) for chunk in chunks], "no chunk yet")
    if args.apply:
        dropped = ops.drop_chunks(
            conn,
            dead_letter_retention_s=settings.dead_letter_retention_s,
            audit_retention_s=settings.audit_retention_s,
        )
        if args.json:
            say(json_text({"dropped": dropped}))
        remark(f"dropped the events of {quantity(len(dropped), 'chunk')}")
        return 0
    going = [chunk for chunk in chunks if chunk.goes]
    room = size_text(sum(chunk.bytes for chunk in going))
    remark(
        f"nothing was dropped: {quantity(len(going), 'chunk')} would go, which frees {room}"
        + ("; --apply does it" if going else "")
    )
    return 0


def changed(args: Args, before: ops.Retention) -> ops.Retention:
    """Return a topic's retention with what the command line says. Raises UsageError."""
    return ops.Retention(
        keep_s=before.keep_s if args.retention is None else parse_age(args.retention),
        archive=before.archive if args.archive is None else _none(args.archive),
        overrun=before.overrun if args.overrun is None else _names(args.overrun),
    )


def parse_age(text: str) -> int | None:
    """Parse the value of --retention; None is forever. Raises UsageError."""
    return None if text == "forever" else _seconds("--retention", text, ", or forever")


def parse_window(text: str | None) -> int | None:
    """Parse the value of --dedupe-window; None: it was not given. Raises UsageError."""
    return None if text is None else _seconds("--dedupe-window", text)


def _seconds(option: str, text: str, otherwise: str = "") -> int:
    if (seconds := whole_seconds(text)) is None:
        must = "a whole number with its unit (90s, 15m, 12h, 7d)"
        raise UsageError(f"{option} {text!r}: {must}{otherwise}")
    return seconds


def new_topic_flags(args: Args) -> dict[str, object]:
    """Return what --partitions and --retention say of a new topic, as flags for load_all()."""
    flags: dict[str, object] = {"total_partitions": args.partitions}
    if args.retention is not None:
        flags["retention_s"] = parse_age(args.retention) or ""
    return flags


def _none(text: str) -> str | None:
    return None if text == "none" else text


def _names(text: str) -> Sequence[str]:
    names: list[Any] = [] if text == "none" else text.split(",")
    return tuple(name.strip() for name in names if name.strip())
