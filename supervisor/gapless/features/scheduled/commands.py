"""The `later` command: events that wait for their time."""

from __future__ import annotations

from gapless.cli.declare import Args, Command, Conn, limit, opt
from gapless.cli.parser import whole
from gapless.cli.place import transaction_id
from gapless.cli.screen import answer_all, listed
from gapless.errors import UsageError
from gapless.features.scheduled.ops import cancel_later, list_later

EXAMPLES = """\
An event published with --at or --in (deliver_at, deliver_in) waits here until it gets its offset.

examples:
  gapless later
  gapless later list --topic mails
  gapless later cancel 17 18
  gapless later cancel --transaction-id 00000000-0000-8000-8000-0000000002f1
"""
_ID_MAX = 2**63 - 1
_CANCELLED_MAX = 1_000_000
command = Command("later")


def _check_choice(args: Args) -> None:
    if bool(args.id) == (args.transaction_id is not None):
        raise UsageError("give ids (gapless later lists them), or --transaction-id UUID")


@command.verb(
    "list waiting events, the next first (also without a verb)",
    opt("--topic", "of this topic only"),
    opt("--transaction-id UUID", "of this one only", transaction_id),
    limit(100, dest="events_max"),
)
def _list(conn: Conn, args: Args) -> int:
    return listed(args, list_later(conn, **args.given), "no event waits for its time")


@command.verb(
    "take events back before they are delivered",
    opt("id", "its SCHEDULED-ID", whole(1, _ID_MAX), nargs="*"),
    opt("--transaction-id UUID", "all that waits of this one", transaction_id),
    check=_check_choice,
)
def _cancel(conn: Conn, args: Args) -> int:
    of = {"transaction_id": args.transaction_id, "events_max": _CANCELLED_MAX}
    ids = args.id or [each.scheduled_id for each in list_later(conn, **of)]
    done = cancel_later(conn, ids)
    return answer_all(args, done, "nothing to do: no event of that transaction waits")
