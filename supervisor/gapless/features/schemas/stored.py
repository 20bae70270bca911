"""The schemas of topics, as those who check payloads know them: read again after LOOK_S.

publish() keeps what it knows by the database, so that one look is for all connections to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor

from gapless.db.queries import query
from gapless.errors import InvalidPayloadError, UncheckedError
from gapless.features.schemas.conform import JsonSchema, Mismatch, NotASchemaError, json_schema
from gapless.log.event import NewEvent
from gapless.log.given import Events
from gapless.log.record import json_text

LOOK_S = 5.0
ANY_TYPE = "*"  # as in sql/features/schemas/functions/set_schema.sql
_KNOWN_MAX = 10_000  # topics

Place = tuple[object, ...]
"""A topic of a database."""


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """A version of the schema of a type."""

    event_type: str
    version: int
    text: str

    def read(self) -> JsonSchema:
        """Return it as what checks. Raises NotASchemaError."""
        return json_schema(self.text)


@dataclass(frozen=True, slots=True)
class TopicSchemas:
    """The schemas of a topic: of each type the versions, the newest first. seen_s: when read.

    is_pooled: a pooler stands before the database: a statement may not meet the session that
    another one was prepared in.
    """

    schemas_no: int
    by_type: dict[str, tuple[SchemaVersion, ...]]
    seen_s: float
    is_pooled: bool = False

    def of(self, event_type: object) -> tuple[SchemaVersion, ...]:
        """Return the versions by which events of a type are checked; none: they are not."""
        own = None if event_type is None else self.by_type.get(str(event_type))
        return own or self.by_type.get(ANY_TYPE, ())

    def checked(self, topic: str, events: Events) -> Events:
        """Return the events, each checked by the newest version; many are as they go."""
        if not self.by_type:
            return events
        if isinstance(events, list):
            return [self._fit(topic, event, None) for event in events]
        return self._each(topic, events)

    def _each(self, topic: str, events: Iterator[Any]) -> Iterator[object]:
        for n, event in enumerate(events):
            yield self._fit(topic, event, n)

    def _fit(self, topic: str, event: Any, at: int | None) -> Any:
        """Return an event whose payload is text that fits. Raises InvalidPayloadError."""
        versions = self.of(event.event_type) if isinstance(event, NewEvent) else ()
        if not versions:
            return event
        newest, text = versions[0], json_text(event.payload, "payload")
        name = f"schema {newest.version} of {topic}/{newest.event_type}"
        try:
            found = newest.read().mismatch(text)
        except NotASchemaError as error:
            raise UncheckedError(f"{name} cannot be checked: {error}") from error
        if found is not None:
            raise InvalidPayloadError(f"{found} ({name})", found, event=at, schema=name)
        return replace(event, payload=text.encode())

    def refusal(self, event_type: str | None, text: str) -> tuple[SchemaVersion, Mismatch] | None:
        """Return why no version takes a payload: what the newest one says; None: one does.

        Versions that cannot be read do not count.
        """
        first = None
        for version in self.of(event_type):
            try:
                found = version.read().mismatch(text)
            except NotASchemaError:
                continue
            if found is None:
                return None
            first = first or (version, found)
        return first


_known: dict[Place, TopicSchemas] = {}


def place_of(conn: Any, topic: str) -> Place:
    """Return what says which database a connection has, of psycopg, psycopg2 or asyncpg."""
    if isinstance(conn, Connection | AsyncConnection):
        pgconn = conn.pgconn
        return (pgconn.host, pgconn.port, pgconn.db, topic)
    if hasattr(conn, "get_server_pid"):  # asyncpg's
        return (conn.get_server_pid(), topic)
    return (conn.info.host, conn.info.port, conn.info.dbname, topic)


def fresh(place: Place) -> TopicSchemas | None:
    """Return what is known of a topic, if it was looked at within LOOK_S."""
    known = _known.get(place)
    return known if known is not None and monotonic() - known.seen_s < LOOK_S else None


def may_prepare(conn: Any, topic: str) -> bool | None:
    """Return what psycopg is told of a statement: None, to decide itself, but for a pooler."""
    known = _known.get(place_of(conn, topic))
    return None if known is not None and not known.is_pooled else False


def asked(place: Place) -> dict[str, Any]:
    """Return the parameters of the query schemas_of."""
    known = _known.get(place)
    return {"topic": place[-1], "known": None if known is None else known.schemas_no}


def remember(place: Place, row: tuple[Any, ...], pid: int | None = None) -> TopicSchemas:
    """Remember what schemas_of returned, and return what is known now.

    pid: of the session, as the client was told; a pooler invents it.
    """
    if len(_known) >= _KNOWN_MAX:
        _known.clear()
    is_pooled = pid is not None and row[2] != pid
    known = _known[place] = replace(learned(row, _known.get(place)), is_pooled=is_pooled)
    return known


def pid_of(conn: Any) -> int:
    """Return the pid that a connection of psycopg, psycopg2 or asyncpg believes to be its own."""
    is_asyncpg = hasattr(conn, "get_server_pid")
    pid: int = conn.get_server_pid() if is_asyncpg else conn.info.backend_pid
    return pid


def learned(row: tuple[Any, ...], before: TopicSchemas | None) -> TopicSchemas:
    """Return what the row of schemas_of says, given what was known."""
    number, text = row[:2]
    if text is None and before is not None:
        return replace(before, seen_s=monotonic())
    by_type: dict[str, tuple[SchemaVersion, ...]] = {}
    for each in json.loads(text or "[]"):
        version = SchemaVersion(each["event_type"], each["version"], each["schema"])
        by_type[version.event_type] = (*by_type.get(version.event_type, ()), version)
    return TopicSchemas(number or 0, by_type, monotonic())


def checked_by(cursor: Cursor[Any], topic: str, events: Events) -> Events:
    """Return the events checked; looks first, by a cursor whose rows are tuples, if it is time.

    Raises InvalidPayloadError, of many events as they go.
    """
    place = place_of(cursor.connection, topic)
    known = fresh(place)
    if known is None:
        cursor.execute(query("log", "schemas_of"), asked(place), prepare=False)
        row = cursor.fetchone()
        assert row is not None
        known = remember(place, row, pid_of(cursor.connection))
    return known.checked(topic, events)


async def checked_by_async(cursor: AsyncCursor[Any], topic: str, events: Events) -> Events:
    """Do the same through an async cursor."""
    place = place_of(cursor.connection, topic)
    known = fresh(place)
    if known is None:
        await cursor.execute(query("log", "schemas_of"), asked(place), prepare=False)
        row = await cursor.fetchone()
        assert row is not None
        known = remember(place, row, pid_of(cursor.connection))
    return known.checked(topic, events)
