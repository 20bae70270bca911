"""publish() in Python: one or many events, sync and async, always in the caller's transaction."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncClientCursor, AsyncConnection, ClientCursor, Connection

from gapless.db.connect import connect
from gapless.log.event import NewEvent
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.publisher import Publisher, publisher

UNIT = UUID("12345678-1234-5678-1234-567812345678")
FIELDS: dict[str, Any] = {
    "key": "AA",
    "event_type": "flight.departed",
    "headers": {"trace": "x", "deep": {"n": [1, 2.5, None]}},
    "host_id": "h",
    "user_id": "N14228",
    "transaction_id": UNIT,
}
MANY = 201  # so many go by COPY, fewer by one statement


@pytest.fixture(params=["sync", "async"])
def own(request: pytest.FixtureRequest, dsn: str, topic: Topic) -> Iterator[Publisher]:
    """A publisher in autocommit."""
    with publisher(dsn, request.param) as made:
        yield made


def _rows(conn: Connection, columns: str = "payload::text") -> list[tuple[Any, ...]]:
    return conn.execute(f"select {columns} from gapless.outbox_message_t order by id").fetchall()


def _events(count: int) -> list[NewEvent]:
    return [NewEvent(payload=n) for n in range(count)]


@pytest.mark.parametrize("count", [1, 2, MANY])
def test_every_field_arrives(conn: Connection, own: Publisher, count: int) -> None:
    if count == 1:
        returned = own.publish("outbox", {"n": 0}, **FIELDS)
    else:
        own.publish("outbox", [NewEvent(payload={"n": n}, **FIELDS) for n in range(count)])
        returned = UNIT
    columns = "payload, key, event_type, headers, host_id, user_id, transaction_id, topic_id"
    assert _rows(conn, columns) == [({"n": n}, *FIELDS.values(), 1) for n in range(count)]
    assert returned == UNIT
    assert sequence(conn) == count


@pytest.mark.parametrize("count", [3, MANY])
def test_each_event_has_its_own_fields(conn: Connection, own: Publisher, count: int) -> None:
    """Some have nothing where others have something, and nobody has a header."""

    def fields(n: int) -> dict[str, Any]:
        keys = {"key": f"k{n}", "user_id": f"u{n}", "event_type": f"e{n}"}
        return dict([*keys.items()][n % 4 :])

    own.publish("outbox", [NewEvent(payload=n, **fields(n)) for n in range(count)])
    assert _rows(conn, "payload, key, user_id, event_type, headers") == [
        (n, *map(fields(n).get, ("key", "user_id", "event_type", "headers"))) for n in range(count)
    ]


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ([], "[]"),
        ([1, 2], "[1,2]"),
        ((), "[]"),
        ({}, "{}"),
        (None, "null"),
        ("text", '"text"'),
        ("", '""'),
        (0, "0"),
        (False, "false"),
        (10**40, "1" + "0" * 40),
        ({"ü": "🛩"}, '{"ü":"🛩"}'),
        ("nul \0 inside", '"nul \\u0000 inside"'),
        (b'{ "b":1,\n"a" : 1.10 , "b": 2}', '{ "b":1,\n"a" : 1.10 , "b": 2}'),
        (bytearray(b'"\\u0000"'), '"\\u0000"'),
        ({"a": [{"b": None}]}, '{"a":[{"b":null}]}'),
    ],
)
def test_a_payload_is_stored_as_it_is(
    conn: Connection, own: Publisher, payload: object, text: str
) -> None:
    own.publish("outbox", payload)
    own.publish("outbox", [NewEvent(payload=payload)])
    own.publish("outbox", (NewEvent(payload=payload) for _ in range(MANY)))
    assert _rows(conn) == [(text,)] * (MANY + 2)


@pytest.mark.long
def test_a_generator_is_not_gathered_in_memory(conn: Connection, own: Publisher) -> None:
    """What it yields is on its way before it is asked for the next: 70 000 events, and 100 at a time."""
    alive: list[int] = []

    class Counted(NewEvent):
        __slots__ = ()

        def __del__(self) -> None:
            alive.append(-1)

    def generate() -> Iterator[NewEvent]:
        for n in range(70_000):
            yield Counted(payload=n)
            if n % 1000 == 0:
                assert n - len(alive) < 300

    own.publish("outbox", generate())
    row = conn.execute("select count(*), max(payload::text::int) from gapless.outbox_message_t")
    assert row.fetchone() == (70_000, 69_999)


@pytest.mark.long
def test_a_large_payload(conn: Connection, own: Publisher) -> None:
    own.publish("outbox", "x" * 20_000_000)
    own.publish("outbox", [NewEvent(payload="y" * 20_000_000)] * 2)
    assert _rows(conn, "length(payload::text)") == [(20_000_002,)] * 3


def test_the_connections_cursor_factory_does_not_matter(conn: Connection, own: Publisher) -> None:
    if isinstance(own.conn, AsyncConnection):
        own.conn.cursor_factory = AsyncClientCursor
    else:
        own.conn.cursor_factory = ClientCursor
    for count in (1, 2, MANY):
        own.publish("outbox", _events(count))
    own.publish("outbox", {"a": "o'hare %s"}, **FIELDS)
    assert len(_rows(conn)) == MANY + 4


def test_one_transaction_may_publish_in_every_way(conn: Connection, own: Publisher) -> None:
    own.execute("begin")
    returned = {own.publish("outbox", _events(count)) for count in (1, 2, MANY)}
    returned.add(own.publish("outbox", 1))
    own.execute("commit")
    assert len(returned) == 1
    assert sequence(conn) == MANY + 4


def test_an_outage_is_not_the_events_fault(dsn: str, own: Publisher) -> None:
    """It stays what it was, so that the caller can tell it from an event that cannot be stored."""
    with connect(dsn, role="admin") as admin:
        admin.execute("select pg_terminate_backend(%s)", [own.conn.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        own.publish("outbox", 1)
