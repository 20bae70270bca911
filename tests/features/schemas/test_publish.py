"""Payloads are checked by the newest schema before they are stored: publish() in each of its forms."""

import asyncio
import builtins
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, Connection

import gapless
from gapless import NewEvent, ops
from gapless.errors import InvalidPayloadError, PublishError, UncheckedError
from gapless.features.schemas import conform
from gapless.log import known
from gapless.log.topics import ensure_topic
from support.hosts import HOSTS

ORDER = '{"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}'
GOOD, BAD = {"total": 5}, {"total": "x"}


@pytest.fixture(autouse=True)
def shop(conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_topic(conn, "outbox", partitions=2)
    monkeypatch.setattr(known, "LOOK_S", 0.0)


def stored(conn: Connection) -> list[str]:
    rows = conn.execute("select payload::text from gapless.outbox_message_t order by id")
    return [text for (text,) in rows.fetchall()]


def test_one_event_of_the_type_is_checked_and_no_other(conn: Connection) -> None:
    ops.add_schema(conn, "outbox", ORDER, event_type="order")
    gapless.publish(conn, "outbox", GOOD, event_type="order")
    gapless.publish(conn, "outbox", BAD, event_type="another")
    gapless.publish(conn, "outbox", BAD)
    with pytest.raises(InvalidPayloadError, match=r"^/total: ") as refused:
        gapless.publish(conn, "outbox", BAD, event_type="order")
    assert str(refused.value).endswith('is not of type "integer" (schema 1 of outbox/order)')
    assert refused.value.mismatch.pointer == "/total"
    assert len(stored(conn)) == 3
    ops.add_schema(conn, "outbox", '{"type": "string"}')
    gapless.publish(conn, "outbox", GOOD, event_type="order")
    with pytest.raises(InvalidPayloadError, match=r"schema 1 of outbox/\*"):
        gapless.publish(conn, "outbox", BAD)


def test_what_is_checked_is_what_is_stored(conn: Connection) -> None:
    @dataclass
    class Order:
        total: int
        price: Decimal

    text = '{"properties": {"total": {"type": "integer"}, "price": {"type": "string"}}}'
    ops.add_schema(conn, "outbox", text)
    gapless.publish(conn, "outbox", Order(5, Decimal("1.10")))
    gapless.publish(conn, "outbox", b'{"total": 100000000000000000000000000000,  "price": "1"}')
    assert stored(conn) == [
        '{"total":5,"price":"1.10"}',
        '{"total": 100000000000000000000000000000,  "price": "1"}',
    ]
    with pytest.raises(InvalidPayloadError, match="payload: "):
        gapless.publish(conn, "outbox", b"{")
    with pytest.raises(PublishError, match="payload is not JSON"):
        gapless.publish(conn, "outbox", object())


@pytest.mark.parametrize("events", [2, 300])
def test_of_many_the_one_that_does_not_fit_is_named_and_none_is_stored(
    conn: Connection, events: int
) -> None:
    ops.add_schema(conn, "outbox", ORDER)
    many = [NewEvent(payload=GOOD) for _ in range(events)]
    with pytest.raises(
        InvalidPayloadError, match=f"^event {events + 1} of many: /total"
    ) as refused:
        gapless.publish(conn, "outbox", [*many, NewEvent(payload=BAD)])
    assert refused.value.event == events
    assert stored(conn) == []
    gapless.publish(conn, "outbox", many)
    assert len(stored(conn)) == events


def test_with_a_dedupe_key_for_later_and_for_a_request(conn: Connection) -> None:
    ops.add_schema(conn, "outbox", ORDER)
    for fields in ({"dedupe_key": "k"}, {"deliver_in": 60}):
        with pytest.raises(InvalidPayloadError):
            gapless.publish(conn, "outbox", BAD, **fields)
    with pytest.raises(InvalidPayloadError):
        gapless.request(conn, "outbox", BAD, timeout_s=1)
    assert stored(conn) == []
    assert conn.execute("select count(*) from gapless.scheduled").fetchone() == (0,)


def test_async_connections(dsn: str, conn: Connection) -> None:
    ops.add_schema(conn, "outbox", ORDER)

    async def play() -> None:
        async with await AsyncConnection.connect(dsn) as own:
            await gapless.publish(own, "outbox", GOOD)
            with pytest.raises(InvalidPayloadError):
                await gapless.publish(own, "outbox", [NewEvent(payload=BAD)])

    asyncio.run(play())
    assert stored(conn) == ['{"total":5}']


@pytest.mark.parametrize("name", ["asyncpg", "psycopg2"])
def test_other_drivers(dsn: str, conn: Connection, name: str) -> None:
    ops.add_schema(conn, "outbox", ORDER)

    async def play() -> None:
        async with HOSTS[name](dsn, autocommit=True) as host:
            await host.publish(GOOD)
            with pytest.raises(InvalidPayloadError):
                await host.publish(BAD)
            with pytest.raises(InvalidPayloadError, match="event 251 of many"):
                await host.publish([*[NewEvent(payload=GOOD)] * 250, NewEvent(payload=BAD)])

    asyncio.run(play())
    assert stored(conn) == ['{"total":5}']


class TestNoticing:
    def test_a_new_version_counts_from_the_next_look_on(
        self, conn: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ops.add_schema(conn, "outbox", ORDER)
        gapless.publish(conn, "outbox", GOOD)
        monkeypatch.setattr(known, "LOOK_S", 3600.0)
        ops.add_schema(conn, "outbox", '{"type": "string"}', compatibility="none")
        gapless.publish(conn, "outbox", GOOD)  # not looked at yet
        monkeypatch.setattr(known, "LOOK_S", 0.0)
        with pytest.raises(InvalidPayloadError, match="schema 2 of"):
            gapless.publish(conn, "outbox", GOOD)
        ops.remove_schema(conn, "outbox", version=2)
        gapless.publish(conn, "outbox", GOOD)
        ops.remove_schema(conn, "outbox")
        gapless.publish(conn, "outbox", BAD)

    def test_a_schema_that_was_made_anew_is_another_one(self, conn: Connection) -> None:
        ops.add_schema(conn, "outbox", ORDER)
        gapless.publish(conn, "outbox", GOOD)
        conn.execute("delete from gapless.topic_schema")  # as if the schema had been dropped
        conn.execute("update gapless.topic set schemas_no = 0")
        ops.add_schema(conn, "outbox", '{"type": "string"}')
        with pytest.raises(InvalidPayloadError):
            gapless.publish(conn, "outbox", GOOD)


def test_without_the_library_a_topic_with_a_schema_is_refused(
    conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ops.add_schema(conn, "outbox", ORDER)
    real = builtins.__import__

    def without(name: str, *args: Any, **kw: Any) -> Any:
        if name == "jsonschema_rs":
            raise ImportError(name)
        return real(name, *args, **kw)

    conform.json_schema.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UncheckedError, match=r"pip install 'gapless\[schema\]'"):
        gapless.publish(conn, "outbox", GOOD)
    ops.remove_schema(conn, "outbox")
    gapless.publish(conn, "outbox", GOOD)


def test_a_schema_that_sql_let_in_is_named(conn: Connection) -> None:
    conn.execute("""select gapless.set_schema('outbox', '{"type": "objekt"}')""")
    with pytest.raises(PublishError, match=r"schema 1 of outbox/\* cannot be checked: .*/type"):
        gapless.publish(conn, "outbox", GOOD)


def test_a_producer_may_read_the_schemas_and_not_set_them(conn: Connection) -> None:
    ops.add_schema(conn, "outbox", ORDER)
    with conn.transaction(force_rollback=True):
        conn.execute("set local role gapless_producer")
        gapless.publish(conn, "outbox", GOOD)
        with pytest.raises(InvalidPayloadError):
            gapless.publish(conn, "outbox", BAD)
    for role in ("gapless_producer", "gapless_consumer"):
        with conn.transaction(force_rollback=True):
            conn.execute(psycopg.sql.SQL("set local role {}").format(psycopg.sql.Identifier(role)))
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute("select gapless.set_schema('outbox', 'true')")
