"""The `audit` command: changes by people and programs."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, limit, opt
from gapless.cli.parser import whole
from gapless.cli.place import argument, moment
from gapless.cli.screen import listed
from gapless.ops.audit import ENTRIES_MAX, list_audit
from gapless.ops.place import read_since

EXAMPLES = """\
The newest change is first. WHO is the database role, with the caller of a gateway in brackets.

examples:
  gapless audit --since 12h
  gapless audit --who shop --action seek
  gapless audit --group billing --topic orders --limit 20
"""
command = Command("audit")


@command.main(
    opt("--who TEXT", "changes whose author has this text in its name"),
    opt("--action NAME", "of this kind: pause, resume, seek, filter, create-key …"),
    opt("--group", "of this group"),
    opt("--topic", "of this topic"),
    opt("--since TS|AGE", "made then or later, or at most so long ago: 12h", argument(read_since)),
    opt("--until TS", "made then or before", moment),
    opt("--before ID", "with a smaller AUDIT-ID: the next page", whole(1, 2**62)),
    limit(100, "rows, at most", ENTRIES_MAX),
    route="GET /v1/audit audit",
)
def _audit(conn: Conn, args: Args) -> int:
    return listed(args, list_audit(conn, **args.given), "no change was made")
