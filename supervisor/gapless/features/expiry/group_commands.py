"""The verb `expire` of `groups`."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, flag, one_of, opt
from gapless.cli.screen import listed, told
from gapless.features.expiry.ops import list_expiries, set_expiry
from gapless.ops.place import read_age

EXAMPLES = "  gapless groups expire trial --after 30d\n"
command = Command("groups")


@command.verb(
    "let a group be dropped when it is not used for long, or never; or show when it is",
    "group",
    one_of(
        opt("--after AGE", "no member and no claim for so long: 12h, 30d"),
        flag("--never", "keep it, as every other group"),
    ),
    check=lambda args: read_age(args.after, "--after"),
)
def _expire(conn: Conn, args: Args) -> int:
    if args.after is None and not args.never:
        hint = f"group {args.group} never expires: gapless groups expire {args.group} --after AGE"
        return listed(args, list_expiries(conn, args.group), hint)
    return told(args, set_expiry(conn, args.group, read_age(args.after, "--after")))
