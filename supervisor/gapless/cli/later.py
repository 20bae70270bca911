"""The `later` command: events that wait for their time."""

from __future__ import annotations

from uuid import UUID

from gapless import ops
from gapless.cli.declare import Args, Command, Conn, limit, opt
from gapless.cli.parser import whole
from gapless.cli.place import argument
from gapless.cli.screen import answer_all, listed
from gapless.errors import UsageError

EXAMPLES = """\
What is published with --at or --in (deliver_at, deliver_in) waits here until it gets its offset.

examples:
  gapless later
  gapless later list --topic mails
  gapless later cancel 17 18
  gapless later cancel --transaction-id 00000000-0000-8000-8000-0000000002f1
"""
_ID_MAX = 2**63 - 1
_CANCELLED_MAX = 1_000_000
command = Command("later")


def _read_uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a UUID") from None


_uuid = argument(_read_uuid)


def _check_choice(args: Args) -> None:
    if bool(args.id) == (args.transaction_id is not None):
        raise UsageError("give ids (gapless later lists them), or --transaction-id UUID")


@command.verb(
    "list what waits, the next first (also without a verb)",
    opt("--topic", "of this topic only"),
    opt("--transaction-id UUID", "of this one only", _uuid),
    limit(100),
)
def _list(conn: Conn, args: Args) -> int:
    which = {"topic": args.topic, "transaction_id": args.transaction_id}
    found = ops.list_later(conn, **which, events_max=args.limit)
    return listed(args, found, "no event waits for its time")


@command.verb(
    "take events back before they are delivered",
    opt("id", "its SCHEDULED-ID", whole(1, _ID_MAX), nargs="*"),
    opt("--transaction-id UUID", "all that waits of this one", _uuid),
    check=_check_choice,
)
def _cancel(conn: Conn, args: Args) -> int:
    of = {"transaction_id": args.transaction_id, "events_max": _CANCELLED_MAX}
    ids = args.id or [each.scheduled_id for each in ops.list_later(conn, **of)]
    done = ops.cancel_later(conn, ids)
    return answer_all(args, done, "nothing to do: no event of that transaction waits")
