"""Groups that say on_invalid: an event that fits no version is a dead letter, and no handler sees it."""

from typing import Any

import pytest
from psycopg import AsyncConnection, Connection

import gapless
from gapless import Unit, ops, testing
from gapless.consume.user.handler import Handler, handler
from gapless.errors import UsageError
from gapless.features.schemas import conform
from gapless.log import known

ORDER = '{"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}'
seen: list[Any] = []


@pytest.fixture
def shop(dsn: str, conn: Connection, monkeypatch: pytest.MonkeyPatch) -> str:
    testing.install(dsn, topics={"orders": 1})
    ops.add_schema(conn, "orders", ORDER, event_type="order")
    monkeypatch.setattr(known, "LOOK_S", 0.0)
    seen.clear()
    return dsn


def insert(conn: Connection, *payloads: str, event_type: str = "order") -> None:
    """Publish as any client may: nothing is checked. All is one unit."""
    with conn.transaction():
        for payload in payloads:
            conn.execute(
                "select gapless.publish('orders', %s::text::json, event_type => %s)",
                (payload, event_type),
            )


def note(unit: Unit) -> None:
    seen.extend(event.payload for event in unit)


@handler(topic="orders", group="g", on_invalid="dead-letter")
def bill(unit: Unit, conn: Connection[Any]) -> None:
    note(unit)


@handler(topic="orders", group="g", on_invalid="dead-letter")
async def bill_async(unit: Unit, conn: AsyncConnection[Any]) -> None:
    note(unit)


@handler(topic="orders", group="g", on_invalid="dead-letter", batch=True)
def bill_batch(batch: gapless.Batch, conn: Connection[Any]) -> None:
    for unit in batch:
        note(unit)


@handler(topic="orders", group="g", on_invalid="dead-letter", delivery="at-least-once")
def call(unit: Unit) -> None:
    note(unit)


@handler(topic="orders", group="g", on_invalid="dead-letter", delivery="at-least-once")
async def call_async(unit: Unit) -> None:
    note(unit)


@handler(topic="orders", group="g", on_invalid="dead-letter", mode="queue")
def take(unit: Unit, conn: Connection[Any]) -> None:
    note(unit)


@handler(
    topic="orders", group="g", on_invalid="dead-letter", mode="queue", delivery="at-least-once"
)
def take_outside(unit: Unit) -> None:
    note(unit)


EACH = [bill, bill_async, bill_batch, call, call_async, take, take_outside]


@pytest.mark.few(3)
@pytest.mark.parametrize("each", EACH, ids=lambda each: each.name.partition(":")[2])
def test_what_fits_no_version_is_set_aside_unseen(
    shop: str, conn: Connection, each: Handler
) -> None:
    insert(conn, '{"total": 1}')
    insert(conn, '{"total": "x"}')
    insert(conn, '{"total": 2}')
    insert(conn, '"of another type"', event_type="note")
    assert testing.drain(shop, each).dead == 1
    totals = [payload if isinstance(payload, str) else payload["total"] for payload in seen]
    assert set(totals) == {1, 2, "of another type"}
    (row,) = conn.execute(
        "select state, attempts, exception_class, reason from gapless.dead_letter"
    )
    assert row[:2] == ("dead", 1)
    assert row[2].endswith(".InvalidEventError")
    assert 'orders/0@2: /total: "x" is not of type "integer" (schema 1 of orders/order)' in row[3]


def test_its_unit_is_a_letter_whole(shop: str, conn: Connection) -> None:
    insert(conn, '{"total": 1}', '{"total": "x"}')
    insert(conn, '{"total": 2}')
    assert testing.drain(shop, bill).dead == 1
    assert [payload["total"] for payload in seen] == [2]
    assert conn.execute("select count(*) from gapless.dead_letter_event").fetchone() == (2,)


def test_what_any_version_takes_is_handled(shop: str, conn: Connection) -> None:
    ops.add_schema(conn, "orders", '{"type": "string"}', event_type="order", compatibility="none")
    insert(conn, '{"total": 1}')
    insert(conn, '"text"')
    insert(conn, "5")
    assert testing.drain(shop, bill).dead == 1
    assert seen[-2:] == [{"total": 1}, "text"]  # before the letter was found, once more
    ops.remove_schema(conn, "orders", "order", version=1)
    insert(conn, '{"total": 1}')
    assert testing.drain(shop, bill).dead == 1


@pytest.mark.long
def test_a_letter_is_handled_once_a_schema_takes_it(shop: str, conn: Connection) -> None:
    insert(conn, '{"total": "x"}')
    assert testing.drain(shop, bill).dead == 1
    ops.add_schema(conn, "orders", "true", event_type="order")
    ops.redrive_unit(conn, ops.GroupPlace.parse("g/orders/0@1"))
    assert testing.drain(shop, bill).dead == 0
    assert seen == [{"total": "x"}]


def test_a_schema_that_cannot_be_read_lets_all_through(shop: str, conn: Connection) -> None:
    ops.remove_schema(conn, "orders", "order")
    conn.execute("""select gapless.set_schema('orders', '{"type": "objekt"}', 'order')""")
    insert(conn, '{"total": "x"}')
    assert testing.drain(shop, bill).dead == 0


def test_a_handler_that_says_nothing_gets_all(shop: str, conn: Connection) -> None:
    insert(conn, '{"total": "x"}')

    @handler(topic="orders", group="g")
    def any_(unit: Unit, conn: Connection[Any]) -> None:
        note(unit)

    assert testing.drain(shop, any_).dead == 0
    assert any_.guard is None


def test_another_word_is_refused() -> None:
    with pytest.raises(UsageError, match="on_invalid='skip'\\): \"dead-letter\""):
        handler(topic="orders", on_invalid="skip")  # type: ignore[call-overload]


def test_without_what_checks_schemas_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conform, "find_spec", lambda _: None)
    with pytest.raises(UsageError) as caught:
        handler(topic="orders", on_invalid="dead-letter")(note)
    assert str(caught.value) == f'handler(on_invalid="dead-letter") {conform.NEEDED}'
