"""Events with a dedupe_key: which keys there can be, and what their publisher is told.

A key and its event are stored by one SQL function (sql/functions/publish/publish_once.sql), so
nobody ever finds one without the other. Many events go in blocks, a statement each: COPY knows no
duplicates.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import chain, islice
from typing import Any, Final, Self
from uuid import UUID

from psycopg import AsyncCursor, Cursor
from psycopg.pq import TransactionStatus

from gapless.db.queries import query
from gapless.errors import PublishError
from gapless.failpoints import hit

NAMES: Final = ("publish_once", "publish_each")  # the queries whose rows told() reads
KEY_LENGTH_MAX: Final = 500  # characters; as in publish_once.sql
_BLOCK = 200  # events in a statement
_Columns = Mapping[str, Sequence[str | None] | None]


class Published(UUID):
    """The transaction_id that publish() returns when there was a dedupe_key.

    Of one event that is a duplicate it is that of the event that came first; of many, all of them
    duplicates, that of the first one's. Else it is what publish() always returns.
    duplicates: how many events were duplicates, and not stored. duplicate: all were.
    stored: how many events were stored.
    """

    __slots__ = ("duplicate", "duplicates")
    duplicate: bool
    duplicates: int

    def __init__(self, transaction_id: str, *, duplicates: int, stored: int) -> None:
        super().__init__(transaction_id)
        # A UUID refuses to be changed.
        object.__setattr__(self, "duplicates", duplicates)
        object.__setattr__(self, "duplicate", not stored)

    def __reduce__(self) -> tuple[Any, ...]:
        return _published, (str(self), self.duplicates, int(not self.duplicate))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class Tally:
    """What became of events in several statements; `own`: the transaction's own id."""

    def __init__(self, own: UUID, stored: int = 0) -> None:
        self._own = own
        self._first: UUID | None = None
        self._duplicates = 0
        self._stored = stored

    def add(self, row: Sequence[Any] | None) -> None:
        """Count what publish_each has returned."""
        one = told(row)
        self._first = self._first or one
        self._duplicates += one.duplicates
        self._stored += 0 if one.duplicate else 1

    def told(self) -> UUID:
        """Return what the caller is told."""
        if self._first is None:
            return self._own
        known = self._own if self._stored else self._first
        return _published(str(known), self._duplicates, self._stored)


class Split:
    """Many events: those before the first keyed one go by COPY, all others in blocks, in order."""

    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._rest: Iterator[Any] = iter(())

    def unkeyed(self, made_of: Callable[[object], tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """Return what is made of the events up to the first keyed one. Once only."""
        for event in self._events:
            made = made_of(event)
            if event.dedupe_key is not None:
                self._rest = chain((event,), self._events)
                return
            yield made

    def blocks(
        self, topic: str, columns: Callable[[Sequence[Any]], _Columns]
    ) -> Iterator[dict[str, Any]]:
        """Return the parameters of publish_each for all that unkeyed() has left."""
        while block := list(islice(self._rest, _BLOCK)):
            yield block_of(topic, block, columns(block))


@contextmanager
def all_or_none(cursor: Cursor[Any]) -> Iterator[None]:
    """Abort the caller's transaction at any error, also one of our own, as an error in a COPY does.

    Some statements are done by then, and who continues and commits would have published a part.
    """
    try:
        yield
    except BaseException:
        if cursor.connection.info.transaction_status == TransactionStatus.INTRANS:
            with cursor.copy(query("log", "copy_events")):
                raise
        raise


@asynccontextmanager
async def all_or_none_async(cursor: AsyncCursor[Any]) -> AsyncIterator[None]:
    """Do the same through an async connection."""
    try:
        yield
    except BaseException:
        if cursor.connection.info.transaction_status == TransactionStatus.INTRANS:
            async with cursor.copy(query("log", "copy_events")):
                raise
        raise


def told(row: Sequence[Any] | None) -> Published:
    """Return what the caller is told, from the row of publish_once or publish_each."""
    assert row is not None
    hit("keyed.stored")
    return _published(str(row[0]), row[1], row[2])


def summed(rows: Sequence[Sequence[Any]]) -> Published:
    """Return what the caller is told of several statements; a row of an id alone had no key."""
    all_told = [told(row) if len(row) > 1 else _published(str(row[0]), 0, 1) for row in rows]
    known = next((each for each in all_told if not each.duplicate), all_told[0])
    stored = sum(not each.duplicate for each in all_told)
    return _published(str(known), sum(each.duplicates for each in all_told), stored)


def key_text(value: object) -> str | None:
    """Return a dedupe_key as text. Raises PublishError for what cannot be one."""
    if value is None:
        return None
    if not isinstance(value, str | UUID):
        raise PublishError(f"dedupe_key must be text, not {type(value).__name__}")
    text = str(value)
    if not 0 < len(text) <= KEY_LENGTH_MAX:
        raise PublishError(
            f"dedupe_key must have 1 to {KEY_LENGTH_MAX} characters, not {len(text)}"
        )
    if "\0" in text:
        raise PublishError(
            f"dedupe_key {text!r} has a NUL character, which PostgreSQL cannot store"
        )
    return text


def block_of(topic: str, events: Sequence[Any], columns: _Columns) -> dict[str, Any]:
    """Return the parameters of publish_each. `columns`: what the events have."""
    keys = [key_text(event.dedupe_key) for event in events]
    return {"topic": topic, **columns, "dedupe_key": keys}


def _published(transaction_id: str, duplicates: int, stored: int) -> Published:
    return Published(transaction_id, duplicates=duplicates, stored=stored)
