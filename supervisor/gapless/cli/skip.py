"""The `skip` command: let a group pass a hole in the log."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, opt
from gapless.cli.place import event_place
from gapless.cli.screen import told
from gapless.ops.control import skip_hole

EXAMPLES = """\
A hole is what somebody deleted from the log by hand; gapless status names the offset at which a
group has stopped. Restore what is missing if you can: then it continues by itself. What is there
of a unit that the hole tore is passed as well, for a unit is handled as a whole or not at all.
gapless.audit keeps what was passed.

example:
  gapless skip billing/orders/3@17
"""
command = Command("skip")


@command.main(opt("place GROUP/TOPIC/PARTITION@OFFSET", None, event_place))
def _skip(conn: Conn, args: Args) -> int:
    return told(args, skip_hole(conn, args.place))
