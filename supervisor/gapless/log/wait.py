"""Read your writes: wait until a group, or a chain of groups, has handled published events.

The server waits (sql/log/functions/chain/chain_state.sql), in short calls, so that no snapshot is
held for long and Ctrl-C is heard; the connection may be of either kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any, Literal, NamedTuple, cast, overload
from uuid import UUID

from psycopg import Connection

from gapless.db.queries import query
from gapless.errors import UsageError, WaitError
from gapless.log.borrowed import AsyncHost
from gapless.log.play import Explaining, play
from gapless.log.script import Row, Script, Trouble

Handled = Literal["handled", "dead"]

_CALL_S_MAX = 0.5
_DONE = frozenset({"handled", "dead"})
_HOPELESS = {
    "rolled-back": "it was rolled back: nothing of it was published",
    "elsewhere": "it published nothing into a topic of this group",
    "skipped": "the group passed it without a call: a seek, or it began after it",
}
_REASONS = {
    **_HOPELESS,
    "waiting": "it failed, and waits to be tried again",
    "scheduled": "it is scheduled until {until}",
    "pending": "the group has not come to it yet",
    "unsequenced": "its events have no offsets yet: does a sequencer run?",
    "open": "it has not committed yet",
    "unknown": "no event of it is there: not committed, rolled back, or never published",
}


class _Wanted(NamedTuple):
    """The events and groups to wait for, as the query's parameters."""

    groups: list[str]
    transaction_id: str


@overload
def wait_for(
    conn: Connection[Any],
    group: str,
    transaction_id: UUID | str,
    timeout_s: float = ...,
    *,
    through: Iterable[str] = ...,
) -> Handled: ...
@overload
def wait_for(  # type: ignore[overload-overlap]  # a str cannot be awaited
    conn: AsyncHost,
    group: str,
    transaction_id: UUID | str,
    timeout_s: float = ...,
    *,
    through: Iterable[str] = ...,
) -> Awaitable[Handled]: ...
@overload
def wait_for(
    conn: object,
    group: str,
    transaction_id: UUID | str,
    timeout_s: float = ...,
    *,
    through: Iterable[str] = ...,
) -> Handled: ...
def wait_for(
    conn: object,
    group: str,
    transaction_id: UUID | str,
    timeout_s: float = 10.0,
    *,
    through: Iterable[str] = (),
) -> Handled | Awaitable[Handled]:
    """Wait until `group` has handled all events of a published transaction, in all partitions.

    conn: any that publish() takes; if it is async, await the call.
    transaction_id: the value that publish() returned.
    through: the groups before `group` in a chain, in order; it may end with `group` itself. The
    first of them has to handle the events of the transaction; each later one has to handle these,
    and the events that the one before it published for them; all in the topics that it covers. If a
    group publishes nothing, the chain ends there: the later groups have nothing to do.
    Returns "handled"; or "dead" when some of these events are dead letters or were discarded, and
    nothing else can follow. Units that are to be tried again are waited for. Events that its filter
    does not take count as handled; those over which a person moved it (a seek) do not: "skipped".
    timeout_s: 0 or less looks once. Raises WaitError after it, or at once when waiting is hopeless
    (`state` is the reason, `group` the group that has it); UsageError for an unknown group, inside
    the publishing transaction, or above READ COMMITTED.
    """
    script = waiting(group, transaction_id, timeout_s, through)
    return play(conn, script, Explaining(wait_error))


def waiting(
    group: str, transaction_id: UUID | str, timeout_s: float = 10.0, through: Iterable[str] = ()
) -> Callable[[object], Script[Handled]]:
    """Return a maker of the script of wait_for(); raises as wait_for() does."""
    try:
        give_up_s = monotonic() + max(0.0, timeout_s)
    except TypeError as error:
        raise UsageError(f"timeout_s={timeout_s!r}: a number of seconds") from error
    wanted = _Wanted(_path(group, through), str(_uuid(transaction_id)))
    return partial(_waited, wanted, give_up_s)


def require_covered(conn: Connection[Any], group: str, topic: str) -> None:
    """Raise UsageError if there is no such group, or if it does not cover the topic."""
    row = conn.execute(query("log", "covers"), {"group": group, "topic": topic}).fetchone()
    assert row is not None
    is_there, covers = row
    if not is_there:
        raise UsageError(f'there is no group "{group}": gapless groups lists them')
    if not covers:
        raise UsageError(f"group {group} does not handle topic {topic}: nothing to wait for")


def _waited(wanted: _Wanted, give_up_s: float, _: object) -> Script[Handled]:
    while True:
        # Not prepared: behind a pooler, the next slice may meet another session.
        row = yield "wait_for", _slice(wanted, give_up_s), False
        if (handled := _verdict(row, wanted, give_up_s)) is not None:
            return handled


def _slice(wanted: _Wanted, give_up_s: float) -> dict[str, object]:
    return {**wanted._asdict(), "timeout_s": min(max(give_up_s - monotonic(), 0.0), _CALL_S_MAX)}


def _verdict(row: Row, wanted: _Wanted, give_up_s: float) -> Handled | None:
    """Return the result, None to continue waiting. Raises WaitError when waiting is hopeless."""
    state: str = row[0]
    if state in _DONE:
        return cast("Handled", state)
    if state in _HOPELESS or monotonic() >= give_up_s:
        what = "" if row[1] == wanted.groups[0] else "the results of "
        raise WaitError(
            f"group {row[1]} has not handled {what}transaction "
            f"{wanted.transaction_id}: {_REASONS[state].format(until=row[2])}",
            state=state,
            group=row[1],
        )
    return None


def _path(group: str, through: Iterable[str]) -> list[str]:
    """Return the groups to wait for, in order, `group` last."""
    before = [through] if isinstance(through, str) else list(through)
    return before if before and before[-1] == group else [*before, group]


def _uuid(value: UUID | str) -> UUID:
    try:
        return value if isinstance(value, UUID) else UUID(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise UsageError(f"transaction_id {value!r} is not a UUID") from error


def wait_error(trouble: Trouble) -> Exception:
    """Turn an error of the database about the request into a UsageError; leave all others."""
    return UsageError(trouble.message) if trouble.state.startswith("GL") else trouble.error
