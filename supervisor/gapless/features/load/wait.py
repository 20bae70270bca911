"""Wait until published events have offsets, or until a group has handled them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from psycopg.errors import InsufficientPrivilege

from gapless.errors import GaplessError, UsageError
from gapless.log.catch_up import is_sequenced, sequence_if_alone, wait_until_sequenced
from gapless.log.wait import require_covered, wait_for
from gapless.ops.text import quantity

if TYPE_CHECKING:
    from uuid import UUID

    from psycopg import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The stored events. xid: of the last transaction whose events get their offsets at once.

    transaction_ids: the ids under which the events are found; none if nothing was stored.
    """

    xid: int | None
    transaction_ids: Collection[UUID]


def require_waitable(conn: Connection[Any], topic: str, group: str | None) -> None:
    """Check, before publishing, that this role may wait for the events, and for the group.

    Raises UsageError for a role that may not look at the sequencer's work, and for a group that
    does not get the events of the topic.
    """
    try:
        is_sequenced(conn, 3)
        sequence_if_alone(conn)
    except InsufficientPrivilege as error:
        role = f'role "{conn.info.user}" in database "{conn.info.dbname}"'
        raise UsageError(
            f"--wait: {role} may publish, but not look at the sequencer: grant it "
            "gapless_consumer, or leave --wait out; nothing was published"
        ) from error
    if group is not None:
        require_covered(conn, group, topic)


def wait_until_handled(
    conn: Connection[Any],
    stored: Stored,
    group: str | None = None,
    *,
    timeout_s: float = 60,
    tell: Callable[[int], None] = lambda _: None,
) -> str:
    """Wait for a group, or without one for offsets, at most timeout_s seconds; return the result.

    Does the sequencer's work if no sequencer runs. "": nothing was stored that could be waited for.
    tell: is called with the number of transactions that the group has handled so far.
    Raises WaitError when the time is over, GaplessError when the group has dead letters of the
    events.
    """
    give_up_s = monotonic() + timeout_s
    if stored.xid is not None:
        wait_until_sequenced(conn, stored.xid, timeout_s=timeout_s)
    if group is None:
        return "all of it has offsets" if stored.xid is not None else ""
    states = []
    for transaction_id in stored.transaction_ids:
        states.append(wait_for(conn, group, transaction_id, give_up_s - monotonic()))
        tell(len(states))
    if dead := states.count("dead"):
        raise GaplessError(
            f"group {group} has dead letters of {quantity(dead, 'transaction')} of it: "
            f"gapless dlq list --group {group}"
        )
    return f"group {group} has handled all of it" if states else ""
