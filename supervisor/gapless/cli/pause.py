"""The `pause` command: let a group, or one partition of it, rest until it is resumed."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, opt
from gapless.cli.place import RANGE
from gapless.cli.screen import told
from gapless.ops.control import pause

EXAMPLES = """\
It holds over restarts, until gapless resume. The partition keeps its place in the plan.

examples:
  gapless pause billing
  gapless pause billing/orders/3 --reason "bad deploy"
"""
command = Command("pause")


@command.main(
    RANGE,
    opt("--reason TEXT", "shown by gapless status"),
    route="POST /v1/groups/{group}/pause pause",
)
def _pause(conn: Conn, args: Args) -> int:
    return told(args, pause(conn, **args.given))
