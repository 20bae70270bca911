"""What cannot be stored: one clear line, PublishError, and nothing of it was written."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.errors import PublishError
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.log import published_nothing
from support.publisher import Publisher, publisher

GOOD = NewEvent(payload="good")


@pytest.fixture(scope="module")
def dsn(module_dsn: str) -> str:
    """One database for the file; each test begins with nothing published in it."""
    return module_dsn


@pytest.fixture
def topic(topic: Topic, conn: Connection) -> Topic:
    published_nothing(conn)
    return topic


@pytest.fixture(params=["sync", "async"])
def own(request: pytest.FixtureRequest, dsn: str, topic: Topic) -> Iterator[Publisher]:
    with publisher(dsn, request.param) as made:
        yield made


BAD_EVENTS: dict[str, tuple[dict[str, Any], str]] = {
    "NUL in key": ({"payload": 1, "key": "a\0b"}, r"key 'a\\x00b' has a NUL"),
    "NUL in raw JSON": ({"payload": b'"\0"'}, "NUL|0x00"),
    "NUL in headers": ({"payload": 1, "headers": {"a": "\0"}}, "u0000|Unicode escape"),
    "lone surrogate in payload": ({"payload": "\ud800"}, "not valid Unicode"),
    "lone surrogate in headers": ({"payload": 1, "headers": {"\ud800": 1}}, "not valid Unicode"),
    "headers that are text": ({"payload": 1, "headers": "x"}, 'headers are a JSON object, not "x"'),
    "headers that are null": ({"payload": 1, "headers": b" null"}, "are a JSON object, not  null"),
    "NaN": ({"payload": float("nan")}, "payload is not JSON: .*not JSON compliant"),
    "JSON cut short": ({"payload": b'{"a": 1'}, "json.*ended unexpectedly"),
    "no JSON": ({"payload": b"hello"}, 'json.*"hello" is invalid'),
    "not UTF-8": ({"payload": b'"\xff"'}, "payload: JSON text must be UTF-8"),
}


def _one(own: Publisher, payload: object, **fields: Any) -> None:
    own.publish("outbox", payload, **fields)


def _new_event(own: Publisher, payload: object, **fields: Any) -> None:
    own.publish("outbox", NewEvent(payload=payload, **fields))


def _some(own: Publisher, payload: object, **fields: Any) -> None:
    own.publish("outbox", [GOOD, NewEvent(payload=payload, **fields), GOOD])


def _many(own: Publisher, payload: object, **fields: Any) -> None:
    own.publish("outbox", [*[GOOD] * 200, NewEvent(payload=payload, **fields), GOOD])


@pytest.mark.few(7)
@pytest.mark.parametrize("name", BAD_EVENTS)
def test_an_event_that_cannot_be_stored(conn: Connection, own: Publisher, name: str) -> None:
    bad, message = BAD_EVENTS[name]
    for way in (_one, _new_event, _some, _many):
        with pytest.raises(PublishError, match=message) as refused:
            way(own, **bad)
        assert "\n" not in str(refused.value), "one line"
        assert sequence(conn) == 0, "nothing was written"
        own.publish("outbox", "the connection still works")
        assert sequence(conn) == 1


@pytest.mark.parametrize("some", [1, 2, 200])
def test_a_session_that_lacks_a_character(dsn: str, topic: Topic, some: int) -> None:
    """Of the producer's own: client_encoding is not ours to choose there."""
    with psycopg.connect(dsn, client_encoding="latin1") as conn:
        with pytest.raises(
            PublishError, match=r"client_encoding .* lacks '\\u20ac': set it to UTF8"
        ):
            publish(conn, "outbox", [NewEvent(payload=1, key="1 €")] * some)
        conn.rollback()
        publish(conn, "outbox", [NewEvent(payload=1, key="1 £")] * some)
        conn.commit()
        keys = conn.execute("select distinct key from gapless.outbox_message_t").fetchall()
    assert keys == [("1 £",)]


BAD_CALLS: dict[str, tuple[Callable[[Publisher], object], str]] = {
    "unknown topic": (
        lambda own: own.publish("nothing", 1),
        'topic "nothing" does not exist: create it with gapless topics create nothing',
    ),
    "unknown topic, some": (lambda own: own.publish("nothing", [GOOD, GOOD]), '"nothing"'),
    "unknown topic, many": (lambda own: own.publish("nothing", [GOOD] * 1000), '"nothing"'),
    "unknown topic, no event": (lambda own: own.publish("nothing", iter(())), '"nothing"'),
    "NUL in topic": (lambda own: own.publish("a\0b", 1), "NUL|0x00"),
    "unknown field": (
        lambda own: own.publish("outbox", 1, keyy="k"),
        "does not know keyy; it takes key, event_type, headers",
    ),
    "field with a NewEvent": (
        lambda own: own.publish("outbox", GOOD, key="k"),
        "key: set it on the NewEvent",
    ),
    "field with many": (
        lambda own: own.publish("outbox", [GOOD, GOOD], key="k", user_id="u"),
        "key, user_id: with many events, set it on each NewEvent",
    ),
    "many payloads": (
        lambda own: own.publish("outbox", iter([GOOD, {"a": 1}])),
        "many events must all be NewEvents, not dict",
    ),
    "events and payloads": (lambda own: own.publish("outbox", [GOOD, 5]), "not JSON"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_call_that_makes_no_sense(conn: Connection, own: Publisher, name: str) -> None:
    call, message = BAD_CALLS[name]
    with pytest.raises(PublishError, match=message) as refused:
        call(own)
    assert "\n" not in str(refused.value)
    assert sequence(conn) == 0


def test_an_error_of_the_generator_itself_comes_through(conn: Connection, own: Publisher) -> None:
    def generate() -> Iterator[NewEvent]:
        yield from [GOOD] * 500
        raise LookupError("the producer's own")

    with pytest.raises(LookupError, match="the producer's own"):
        own.publish("outbox", generate())
    assert sequence(conn) == 0
    own.publish("outbox", 1)
    assert sequence(conn) == 1


@pytest.mark.parametrize("way", [_one, _some, _many])
def test_what_the_caller_did_before_is_not_committed_with_half_of_the_events(
    conn: Connection, own: Publisher, way: Callable[..., None]
) -> None:
    own.execute("drop table if exists business")
    own.execute("create table business (n int)")
    own.execute("begin")
    own.execute("insert into business values (1)")
    with pytest.raises(PublishError):
        way(own, b"no json")
    own.execute("commit")  # of an aborted transaction: PostgreSQL rolls it back
    kept = conn.execute("select count(*) from business").fetchone()
    assert kept == (0,)
    assert sequence(conn) == 0


@pytest.mark.parametrize("kind", ["sync", "async", "psycopg2", "asyncpg"])
def test_a_database_without_the_schema_is_said_to_need_init(empty_dsn: str, kind: str) -> None:
    with publisher(empty_dsn, kind) as bare, pytest.raises(Exception, match="gapless") as raised:
        bare.publish("orders", 1)
    assert raised.value.__notes__ == [
        "the gapless schema is missing or incomplete: run gapless init"
    ]


FOREIGN: dict[str, tuple[str, ...]] = {
    "INSERT": ("insert into gapless.outbox_message_t (payload, headers) values ('1', {})",),
    "INSERT of several": (
        "insert into gapless.outbox_message_t (payload, headers) values ('1', null), ('1', {})",
    ),
    "INSERT … SELECT": ("insert into gapless.outbox_message_t (payload, headers) select '1', {}",),
    "prepared": (
        "prepare foreign_p (jsonb) as insert into gapless.outbox_message_t (headers) values ($1)",
        "execute foreign_p ({})",
        "deallocate foreign_p",
    ),
}


@pytest.mark.parametrize("chunk", ["a chunk", "the default chunk"])
@pytest.mark.parametrize("headers", ['"x"', "[1]", "[]", "7", "true", "null", "{}", None])
def test_headers_of_foreign_clients_are_an_object_or_nothing(
    conn: Connection, topic: Topic, headers: str | None, chunk: str
) -> None:
    if chunk == "the default chunk":
        move = "select setval('gapless.outbox_message_id_seq', max(upto)) from gapless.chunk"
        conn.execute(move)
    value = "null" if headers is None else f"'{headers}'::jsonb"
    ways = {name: [each.format(value) for each in way] for name, way in FOREIGN.items()}
    for name in ("COPY", *ways):
        with conn.transaction(force_rollback=True):
            refused: AbstractContextManager[object] = nullcontext()
            if headers not in ("{}", None):
                refused = pytest.raises(
                    psycopg.errors.CheckViolation, match="headers_are_an_object"
                )
            with refused:
                for statement in ways.get(name, ()):
                    conn.execute(statement.encode())
                if name == "COPY":
                    with conn.cursor().copy(
                        "copy gapless.outbox_message_t (headers) from stdin"
                    ) as copy:
                        copy.write_row([headers])
