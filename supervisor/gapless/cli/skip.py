"""The `skip` command: let a group pass a hole in the log."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, opt
from gapless.cli.place import event_place
from gapless.cli.screen import told
from gapless.ops.control import skip_hole

EXAMPLES = """\
A hole is a range of events that somebody deleted from the log; gapless status names the offset at
which a group has stopped. Restore the missing events if you can: then it continues by itself. The
rest of a unit that has lost events is passed as well, for a unit is handled as a whole or not at
all. gapless.audit keeps the passed events.

example:
  gapless skip billing/orders/3@17
"""
command = Command("skip")


@command.main(opt("place GROUP/TOPIC/PARTITION@OFFSET", None, event_place))
def _skip(conn: Conn, args: Args) -> int:
    return told(args, skip_hole(conn, args.place))
