"""Publish events in the caller's own transaction, through any connection it has.

A convenience over a plain INSERT into gapless.outbox_message_t: no lock, no offset, and no NOTIFY
but the wake handshake. One event is one call of the SQL function gapless.publish(), some are one
statement, many are a COPY. A handler publishes its events for the unit at hand (log.cause).
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, overload
from uuid import UUID

import psycopg
from psycopg import Connection

from gapless.db.schema import init_command, schema_words
from gapless.errors import PublishError, RefusedError
from gapless.failpoints import hit
from gapless.log.borrowed import AsyncHost
from gapless.log.cause import Origin, attribution_of
from gapless.log.given import Events, given
from gapless.log.outgoing import outgoing, sent
from gapless.log.play import Frame, play, raise_told
from gapless.log.script import Trouble
from gapless.log.statements import script_of

_NO_EVENT = ("GL404", "GL409", "P0002")  # SQLSTATEs of an event that cannot be stored, beside 22…
_NO_SCHEMA = ("3F000", "42P01", "42883")  # no such schema, table, function


@overload
def publish(
    conn: Connection[Any],
    topic: str,
    what: object,
    /,
    *,
    cause: Origin | None = None,
    **fields: Any,
) -> UUID: ...
@overload
def publish(
    conn: AsyncHost,
    topic: str,
    what: object,
    /,
    *,
    cause: Origin | None = None,
    **fields: Any,
) -> Awaitable[UUID]: ...
@overload
def publish(
    conn: object,
    topic: str,
    what: object,
    /,
    *,
    cause: Origin | None = None,
    **fields: Any,
) -> UUID: ...
def publish(
    conn: object,
    topic: str,
    what: object,
    /,
    *,
    cause: Origin | None = None,
    **fields: Any,
) -> UUID | Awaitable[UUID]:
    """Publish one event, or many, to `topic`; they exist when the caller's transaction commits.

    conn: of psycopg, psycopg2 or asyncpg; of SQLAlchemy 2, or a session; of Django. With one that
        is async (AsyncConnection, AsyncSession, async_scoped_session, asyncpg's), await the call:
        `await publish(…)`.
    what: a payload (see NewEvent.payload; `bytes` are JSON text already), a NewEvent, or an
        iterable of NewEvents (list, tuple, generator). A list of anything else is one payload.
    fields: for a plain payload, those of a NewEvent: key, event_type, … dedupe_key (once a window),
        deliver_at or deliver_in (not before that time), to_group (for that group only),
        to_subscription (for that subscription of it only).
    cause: the Unit (or Batch) that caused the events (I10). Default: the unit that the handler
        around this call is handling, if any. A handler with batch=True that does not iterate over
        its batch has to give it.
    Returns the transaction_id under which the events can be found. With a dedupe_key, or for later,
    it is a Published, which has the duplicates, and the scheduled_ids for cancel(). In a handler it
    follows from the unit, and is the same at every attempt. On an autocommit connection outside a
    transaction, all of `what` is one transaction.
    Raises PublishError for values that cannot be stored, for an unknown topic, to_group or
    to_subscription (nothing was written), and as InvalidPayloadError for a payload that the topic's
    schema does not take (docs/use/schemas.md); UsageError if `conn` is no connection; the driver's
    own error for trouble of the database. An error from the server has aborted the caller's
    transaction, as after any failed statement.
    """
    if not isinstance(topic, str):
        raise PublishError(f"publish(conn, topic, …): a topic is text, not {topic!r}")
    events = outgoing(given(what, fields))
    told = attribution_of(cause)
    return play(conn, partial(script_of, topic, events, told), Publishing(topic, events))


@dataclass(slots=True)
class Publishing:
    """A block around a play that publishes: counts the events, and explains an error of one."""

    topic: str
    events: Events
    _sent: Frame = field(init=False)

    def __enter__(self) -> None:
        """Begin."""
        hit("publish.before")
        self._sent = sent(self.topic, self.events)
        self._sent.__enter__()

    def __exit__(self, _: object, error: BaseException | None, trace: TracebackType | None) -> None:
        """Count the events; raise the explained error."""
        cause = error.error if isinstance(error, Trouble) else error
        self._sent.__exit__(None if cause is None else type(cause), cause, trace)
        if isinstance(error, Trouble):
            raise_told(error, publish_error(error))
        if isinstance(error, UnicodeEncodeError):
            raise _not_text(error) from error
        if error is None:
            hit("publish.after")


def publish_error(trouble: Trouble) -> Exception:
    """Turn an error that an event caused into a PublishError; leave all others as they are."""
    error, state = trouble.error, trouble.state
    if state == "GL422":
        return RefusedError(trouble.message, sqlstate=state)
    if state in _NO_EVENT or state.startswith("22") or isinstance(error, psycopg.DataError):
        detail = f" ({trouble.detail})" if trouble.detail else ""
        return PublishError(f"{trouble.message}{detail}")
    if state in _NO_SCHEMA:
        error.add_note(f"the {schema_words()} is missing or incomplete: run {init_command()}")
    return error


def _not_text(error: UnicodeEncodeError) -> PublishError:
    if error.encoding.startswith("utf"):
        return PublishError(f"text that is not valid Unicode cannot be stored: {error.reason}")
    character = error.object[error.start : error.end]
    return PublishError(
        f"the session's client_encoding ({error.encoding}) lacks {character!a}: set it to UTF8"
    )
