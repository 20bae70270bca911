"""Typed payloads: what a handler is given, and what becomes of an event that does not decode."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal
from uuid import UUID, uuid4

import msgspec
import pydantic
import pytest
from psycopg import AsyncConnection, Connection

import gapless
from gapless import testing
from gapless.consume.batch import Batch
from gapless.consume.unit import Unit
from gapless.consume.user.handler import handler
from gapless.errors import UsageError
from gapless.log.fields import NotOfTypeError
from gapless.log.typed import decoder_of


@dataclass
class Line:
    price: float
    tags: tuple[str, ...] = ()


@dataclass
class Order:
    total: int
    lines: list[Line] = field(default_factory=list)


class Model(pydantic.BaseModel):
    total: int
    lines: list[dict[str, float]] = []
    made_by: str = pydantic.Field("x", alias="madeBy")


class Struct(msgspec.Struct, rename="camel"):
    total: int
    made_by: str = "x"


@pydantic.dataclasses.dataclass
class Strict:
    total: int


TYPES: dict[str, tuple[Any, Any]] = {
    "dataclass": (Order, Order(5, [Line(1.5, ("a",))])),
    "pydantic": (Model, Model(total=5, madeBy="y")),
    "pydantic dataclass": (Strict, Strict(5)),
    "TypeAdapter": (pydantic.TypeAdapter(Model | Strict), Model(total=5, lines=[{"a": 1}])),
    "msgspec": (Struct, Struct(5, "y")),
    "Decoder": (msgspec.json.Decoder(Struct), Struct(5)),
}


@pytest.fixture
def shop(dsn: str) -> str:
    testing.install(dsn, topics={"orders": 1})
    return dsn


@pytest.mark.parametrize("kind", TYPES)
class TestEachKind:
    @pytest.mark.few(3)
    def test_it_comes_in_as_it_went_out(self, shop: str, conn: Connection, kind: str) -> None:
        wanted, value = TYPES[kind]
        gapless.publish(conn, "orders", value, key="x")
        seen: list[Any] = []

        @handler(topic="orders", payload=wanted)
        def bill(unit: Unit[Any], conn: Connection[Any]) -> None:
            seen.extend((event.key, event.payload) for event in unit)

        assert testing.drain(shop, bill).dead == 0
        assert seen == [("x", value)]

    @pytest.mark.few(3)
    def test_what_does_not_decode_is_a_dead_letter_with_the_path(
        self, shop: str, conn: Connection, kind: str
    ) -> None:
        wanted, value = TYPES[kind]
        calls: list[int] = []

        @handler(topic="orders", payload=wanted, on_failure="retry", retry_delays_s=[60, 60])
        def bill(unit: Unit[Any], conn: Connection[Any]) -> None:
            calls.append(unit.first_offset)

        gapless.publish(conn, "orders", value)
        with conn.transaction():
            gapless.publish(conn, "orders", value)
            gapless.publish(conn, "orders", {"total": "many"})
        gapless.publish(conn, "orders", None)
        gapless.publish(conn, "orders", value)
        testing.drain(shop, bill)
        assert set(calls) == {1, 5}  # no event of a unit that has such a one was handled
        rows = conn.execute(
            "select state, attempts, exception_class, reason from gapless.dead_letter order by 1, 4"
        ).fetchall()
        assert [row[:3] for row in rows] == [("dead", 1, "gapless.PayloadError")] * 2
        first = r".*PayloadError: orders/0@3: \$\.(Model\.|Strict\.|function-wrap\[.*\]\.)?total: "
        assert re.match(first, rows[0][3]), rows[0][3]
        assert "orders/0@4: $" in rows[1][3]


@pytest.mark.long
def test_batches_and_their_cause(shop: str, conn: Connection) -> None:
    for n in (1, 2):
        gapless.publish(conn, "orders", {"total": n})

    @handler(topic="orders", group="g", payload=Order, batch=True)
    def pay(batch: Batch[Order], conn: Connection[Any]) -> None:
        for unit in batch:
            for event in unit:
                if event.cause is None:
                    gapless.publish(conn, "orders", event.payload, event_type="next")

    assert testing.drain(shop, pay).dead == 0
    rows = conn.execute(
        "select cause from gapless.outbox_message_t where event_type = 'next' order by id"
    ).fetchall()
    assert rows == [("g/orders/0@1",), ("g/orders/0@2",)]


@pytest.mark.long
def test_async_and_at_least_once(shop: str, conn: Connection) -> None:
    gapless.publish(conn, "orders", {"total": 5})
    gapless.publish(conn, "orders", {"total": []})
    seen: list[int] = []

    @handler(topic="orders", group="a", payload=Order)
    async def bill(unit: Unit[Order], conn: AsyncConnection[Any]) -> None:
        seen.extend(event.payload.total for event in unit)

    @handler(topic="orders", group="b", payload=Order, delivery="at-least-once")
    def call(unit: Unit[Order]) -> None:
        seen.extend(event.payload.total for event in unit)

    @handler(topic="orders", group="c", payload=Order, delivery="at-least-once")
    async def wait(unit: Unit[Order]) -> None:
        seen.extend(event.payload.total for event in unit)

    assert [testing.drain(shop, each).dead for each in (bill, call, wait)] == [1, 1, 1]
    assert seen == [5, 5, 5, 5]  # that of `a` once more, without its neighbour


def test_a_large_unit_is_decoded_while_it_is_read(shop: str, conn: Connection) -> None:
    gapless.publish(conn, "orders", [gapless.NewEvent(payload={"total": n}) for n in range(9)])
    seen: list[int] = []

    @handler(topic="orders", payload=Order)
    def bill(unit: Unit[Order], conn: Connection[Any]) -> None:
        seen.extend(event.payload.total for event in unit)

    settings = gapless.settings.Settings(stream_above_events=2)
    assert testing.drain(shop, bill, settings=settings).dead == 0
    assert seen == list(range(9))


class Colour(Enum):
    RED = "red"


@dataclass
class All:
    id: UUID
    at: datetime
    on: date
    price: Decimal
    colour: Colour
    where: Path
    kind: Literal["a", "b"]
    pair: tuple[int, str]
    by_name: dict[str, Line]
    flag: bool
    anything: Any
    parent: All | None = None


def test_a_dataclass_has_what_json_writes_of_it(conn: Connection, shop: str) -> None:
    value = All(
        uuid4(), datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2), Decimal("1.50"), Colour.RED,
        Path("a/b"), "a", (1, "x"), {"l": Line(1.0)}, True, {"x": [1]},
    )  # fmt: skip
    value.parent = All(**{**vars(value), "kind": "b"})
    unit = testing.make_unit([value])
    assert decoder_of(All)(next(iter(unit)).payload_json or b"") == value


BAD: dict[str, tuple[Any, str]] = {
    "missing": ({}, "$.total: is missing"),
    "not an object": ([], "$: must be an object, not an array"),
    "text": ({"total": "5"}, "$.total: must be a whole number, not text"),
    "a boolean": ({"total": True}, "$.total: must be a whole number, not a boolean"),
    "deep": (
        {"total": 1, "lines": [{"price": 1}, {"price": None}]},
        "$.lines[1].price: must be a number, not null",
    ),
    "deeper": (
        {"total": 1, "lines": [{"price": 1, "tags": ["a", 2]}]},
        "$.lines[0].tags[1]: must be text, not a number",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_it_is_strict_and_says_where(name: str) -> None:
    value, words = BAD[name]
    unit = testing.make_unit([value])
    with pytest.raises(NotOfTypeError) as told:
        decoder_of(Order)(next(iter(unit)).payload_json or b"")
    assert str(told.value) == words


@pytest.mark.parametrize("wanted", [int, "Order", list[int], 5])
def test_what_is_no_type_of_a_payload_is_refused(wanted: Any) -> None:
    with pytest.raises(UsageError, match=r"payload=.*: a dataclass, a model of pydantic"):
        handler(topic="t", payload=wanted)


@dataclass
class Strange:
    what: complex


@dataclass
class Unknown:
    what: Nowhere  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("wanted", [Strange, Unknown])
def test_a_field_of_no_known_type_is_refused(wanted: Any) -> None:
    with pytest.raises(UsageError, match=r"complex|Nowhere"):
        handler(topic="t", payload=wanted)


class Loop:
    """Something of the caller's own that can be iterated over."""

    def __iter__(self) -> Any:
        return iter((1, 2))


def test_what_is_published_with_a_key_is_one_payload(shop: str, conn: Connection) -> None:
    for each in (Order(1), Model(total=1), Struct(1), {"total": 1}, [1], (1,), "x", 1, None):
        gapless.publish(conn, "orders", each, key="x")
    assert len(testing.published(conn, "orders")) == 9
    with pytest.raises(gapless.PublishError, match="Loop is not JSON serializable"):
        gapless.publish(conn, "orders", Loop(), key="x")
    with pytest.raises(gapless.PublishError, match="with many events, set it on each NewEvent"):
        gapless.publish(conn, "orders", [gapless.NewEvent(payload=1)], key="x")
