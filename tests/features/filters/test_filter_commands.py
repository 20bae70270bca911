"""gapless groups filter: shown, set, cleared; what a handler says at its start; what is refused."""

import json
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

import gapless as library
from gapless import ops
from gapless.errors import RefusedError, UsageError
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from gapless.testing import drain


@pytest.fixture
def billing(gapless: Any, conn: psycopg.Connection) -> None:
    ensure_topic(conn, "orders", partitions=2)
    gapless("groups", "create", "billing", "orders")


@dataclass
class Order:
    n: int


def filters_of(conn: psycopg.Connection) -> list[Any]:
    every = (
        "select group_id, topic, event_types, condition, params from gapless.filters order by 1, 2"
    )
    return conn.execute(every).fetchall()


@pytest.mark.long
def test_shown_set_and_cleared(gapless: Any, conn: psycopg.Connection, billing: None) -> None:
    none = gapless("groups", "filter", "billing")
    assert (none.code, none.out) == (0, "")
    assert "billing takes all events" in none.err
    words = ("--type", "order.*", "--where", "$.total > $min", "--params", '{"min": 100}')
    done = gapless("groups", "filter", "billing/orders", *words)
    assert done.out == "group billing of topic orders takes the events that its filter keeps\n"
    again = gapless("groups", "filter", "billing", *words)
    assert again.out.startswith("nothing to do: group billing of topic orders takes")
    (row,) = gapless("groups", "filter", "billing", "--json").json
    assert row["event_types"] == ["order.*"]
    assert row["params"] == {"min": 100}
    (group,) = gapless("groups", "--json").json
    assert group["takes"] == 'order.* where ($."total" > $"min")'
    assert "order.*" in gapless("groups").out
    cleared = gapless("groups", "filter", "billing", "--clear", "--json")
    assert cleared.json == {"group": "billing", "topic": "orders", "changed": True}
    assert not gapless("groups", "filter", "billing", "--clear", "--json").json["changed"]
    assert filters_of(conn) == []


def test_ops_do_the_same(conn: psycopg.Connection, billing: None) -> None:
    place = ops.GroupPlace.parse("billing")
    assert ops.list_filters(conn, place) == []
    assert ops.set_filter(conn, place, event_types=["a", "b*"]).changed
    (found,) = ops.list_filters(conn, place)
    assert (found.event_types, found.where, found.params) == (["a", "b*"], None, {})
    assert ops.clear_filter(conn, place).changed
    with pytest.raises(UsageError):
        ops.set_filter(conn, place)
    with pytest.raises(RefusedError, match="no value"):
        ops.set_filter(conn, place, where="$.a > $b")


class TestTail:
    @pytest.fixture(autouse=True)
    def filled(self, conn: psycopg.Connection, billing: None) -> None:
        types = ["order.placed", "stock", None]
        events = [
            NewEvent(payload={"n": n}, event_type=types[n % 3], key=str(n)) for n in range(1500)
        ]
        publish(conn, "orders", [*events, NewEvent(payload=b'{"n": "\\u0000"}')])
        sequence(conn)

    def shown(self, gapless: Any, *words: str) -> list[Any]:
        done = gapless("tail", "orders", "--json", *words)
        assert done.code == 0, done.err
        return [json.loads(line)["payload"]["n"] for line in done.lines]

    @pytest.mark.long
    def test_shows_what_a_group_would_be_given(self, gapless: Any) -> None:
        placed = self.shown(gapless, "--from", "earliest", "--type", "order.*")
        assert sorted(placed) == list(range(0, 1500, 3))
        few = ("--where", "$.n < $max", "--params", '{"max": 7}')
        asked = self.shown(gapless, "--from", "earliest", "--type", "*d", *few)
        assert sorted(asked) == [0, 3, 6]
        unasked = self.shown(gapless, "--from", "earliest", "--where", "$.n < 0")
        assert unasked == ["\0"]

    @pytest.mark.long
    def test_newest_of_them(self, gapless: Any) -> None:
        newest = self.shown(gapless, "-n", "2", "--partition", "0", "--type", "stock")
        assert len(newest) == 2
        assert all(n % 3 == 1 for n in newest)


class TestHandler:
    def test_says_it_when_it_starts(self, dsn: str, conn: psycopg.Connection) -> None:
        ensure_topic(conn, "orders", partitions=2)
        types = ["order.placed", "stock", "order.paid"] * 5
        publish(conn, "orders", [NewEvent(payload={}, event_type=t, key=t) for t in types])
        seen: list[str] = []

        @library.handler(topic="orders", group="billing", event_types=["order.*"])
        def take(unit: library.Unit, conn: psycopg.Connection) -> None:
            seen.extend(str(event.event_type) for event in unit)

        assert drain(dsn, take).events == 10
        assert sorted(set(seen)) == ["order.paid", "order.placed"]
        assert filters_of(conn) == [("billing", "orders", ["order.*"], None, {})]

        @library.handler(topic="orders", group="billing", event_types=["*"])
        def take_all(unit: library.Unit, conn: psycopg.Connection) -> None:
            seen.extend(str(event.event_type) for event in unit)

        publish(conn, "orders", [NewEvent(payload={}, event_type="stock")])
        assert drain(dsn, take_all).events == 1
        assert filters_of(conn) == []

    def test_typed_payloads(self, dsn: str, conn: psycopg.Connection) -> None:
        ensure_topic(conn, "orders", partitions=1)
        units = [NewEvent(payload={"n": n}, event_type="ab"[n % 2]) for n in range(6)]
        publish(conn, "orders", units)
        seen: list[tuple[int, int, int]] = []

        @library.handler(topic="orders", group="g", payload=Order, event_types=["b"])
        def take(unit: library.Unit[Order], conn: psycopg.Connection) -> None:
            seen.extend((unit.last_offset, e.offset, e.payload.n) for e in unit)

        assert drain(dsn, take).events == 3
        assert seen == [(6, 2, 1), (6, 4, 3), (6, 6, 5)]


class TestFigures:
    """What a filter passed, and what it could not be asked about: said where people look."""

    @pytest.fixture(autouse=True)
    def handled(self, conn: psycopg.Connection, dsn: str) -> None:
        ensure_topic(conn, "orders", partitions=1)
        for payload in (b'{"n": 1}', b'{"n": 9}', b'{"n": "\\u0000"}'):
            publish(conn, "orders", NewEvent(payload=payload, key="k"))
        taking = library.handler(topic="orders", group="billing", where="$.n > 5")
        drain(dsn, taking(lambda unit, conn: None))

    @pytest.mark.long
    def test_status_and_doctor_name_the_group(self, gapless: Any) -> None:
        (each,) = gapless("status", "--json").json["filters"]
        assert (each["group"], each["topic"], each["takes"]) == (
            "billing",
            "orders",
            'where ($."n" > 5)',
        )
        assert (each["kept"], each["passed"], each["unasked"]) == (2, 1, 1)
        assert "filter of billing/orders: 1 event delivered unasked, " in gapless("status").out
        (found,) = [c for c in gapless("doctor", "--json").json["checks"] if c["name"] == "filters"]
        assert found["level"] == "warning"
        assert "billing/orders: 1 event delivered unasked, billing/orders/0@3: " in found["text"]
        assert "event.filter_error" in found["remedy"]

    def test_one_that_could_be_asked_about_every_event_is_no_trouble(
        self, gapless: Any, conn: psycopg.Connection
    ) -> None:
        conn.execute("select gapless.set_filter('billing', 'orders', condition => '$.n > 7')")
        (each,) = gapless("status", "--json").json["filters"]
        assert (each["unasked"], each["unasked_s"]) == (0, None)
