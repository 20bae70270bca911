"""The `retention` command: chunks that may be dropped, and why the rest stays; drop them."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, yes
from gapless.cli.progress import Steps, is_quiet
from gapless.cli.screen import listed, remark, say
from gapless.features.retention.ops import chunk_row, drop_chunks, list_chunks
from gapless.features.retention.settings import RetentionSettings
from gapless.ops.text import json_text, quantity, size_text

EXAMPLES = """\
Without --apply nothing is dropped. Supervisors do it by themselves (retentionCheckS); this is for
those who want to see it, or to do it from cron. Chunks go whole, oldest first.

examples:
  gapless topics alter orders --retention 7d
  gapless retention
  gapless retention --apply
"""
command = Command("retention")


@command.main(yes())
def _retention(conn: Conn, args: Args) -> int:
    own = args.loaded.settings.of(RetentionSettings)
    with Steps("looking", None, "chunk", is_quiet=is_quiet(args)):
        chunks = list_chunks(conn)
    if not (args.json and args.apply):
        listed(args, [chunk_row(chunk) for chunk in chunks], "no chunk yet")
    going = [chunk for chunk in chunks if chunk.goes]
    if args.apply:
        advice = "; the same again does the rest"
        with Steps("retention", len(going), "chunk", advice, is_quiet=is_quiet(args)) as steps:
            dropped = drop_chunks(
                conn,
                dead_letter_retention_s=own.dead_letter_retention_s,
                audit_retention_s=own.audit_retention_s,
                tell=steps.show,
            )
        if args.json:
            say(json_text({"dropped": dropped}))
        remark(f"dropped the events of {quantity(len(dropped), 'chunk')}")
        return 0
    room = size_text(sum(chunk.bytes for chunk in going))
    remark(
        f"nothing was dropped: {quantity(len(going), 'chunk')} would go, which frees {room}"
        + ("; --apply does it" if going else "")
    )
    return 0
