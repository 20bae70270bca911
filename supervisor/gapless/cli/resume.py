"""The `resume` command: let a paused group, or a partition of it, continue."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn
from gapless.cli.place import RANGE
from gapless.cli.screen import told
from gapless.ops.control import resume

EXAMPLES = """\
It ends every pause in that range, also one that a killed gapless seek --pause left behind.

examples:
  gapless resume billing
  gapless resume billing/orders/3
"""
command = Command("resume")


@command.main(RANGE, route="POST /v1/groups/{group}/resume resume")
def _resume(conn: Conn, args: Args) -> int:
    return told(args, resume(conn, **args.given))
