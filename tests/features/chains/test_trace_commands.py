"""trace: the tree of a chain on the screen and as JSON; one line for what is not there."""

import psycopg
import pytest
from psycopg import Connection

import gapless as package
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.testing import drain, install

HOSTILE = "bill\x1b[2J/orders/0@7"


@package.handler(topic="orders", group="bill")
def bill(unit: package.Unit, conn: Connection) -> None:
    for event in unit:
        publish(conn, "payments", event.payload, key=event.key, event_type="paid")


@package.handler(topic="payments", group="ship")
def ship(unit: package.Unit, conn: Connection) -> None:
    raise ValueError("no \x1b[31mstock")


@pytest.fixture
def told(conn: Connection, dsn: str) -> str:
    """An order that was billed, and whose payment is dead; another group has not begun."""
    install(dsn, topics={"orders": 1, "payments": 1})
    transaction_id = publish(conn, "orders", {"n": 1}, key="AA", event_type="placed")
    conn.execute("select gapless.create_group('audit', 'orders')")
    drain(dsn, bill)
    drain(dsn, ship)
    return str(transaction_id)


def test_the_tree(gapless, told: str) -> None:
    done = gapless("trace", told)
    assert (done.code, done.err) == (0, "")
    payment = gapless("trace", told, "--json").json["units"][0]["groups"][1]["published"][0]
    assert done.lines == [
        f"orders/0@1  1 event  placed  key AA  transaction {told}   <-- asked for",
        "├─ audit: pending, it stands at offset 1",
        "└─ bill: handled",
        f"   └─ payments/0@1  1 event  paid  key AA  transaction {payment['transaction_id']}",
        "      └─ ship: dead, 1 attempt: ValueError: no \\x1b[31mstock",
    ]
    middle = gapless("trace", payment["transaction_id"])
    assert [line.endswith("asked for") for line in middle.lines] == [False] * 3 + [True, False]


def test_json(gapless, told: str) -> None:
    tree = gapless("trace", told, "--json").json
    assert tree["transaction_id"] == told
    (order,) = tree["units"]
    assert (order["topic"], order["asked_for"], order["state"]) == ("orders", True, "sequenced")
    audit, billed = order["groups"]
    assert (audit["group"], audit["state"], audit["published"]) == ("audit", "pending", [])
    (payment,) = billed["published"]
    assert (payment["group"], payment["cause"]) == ("bill", "bill/orders/0@1")
    assert payment["groups"][0]["letter"] == "dead"


@pytest.mark.long
def test_what_is_not_there(gapless, told: str, conn: Connection, dsn: str) -> None:
    never = "11111111-2222-3333-4444-555555555555"
    assert "no event of it is there" in gapless("trace", never).complaint()
    assert "no event of it is there" in gapless("trace", never, "--json").complaint()
    assert "'x' is not a transaction_id" in gapless("trace", "x").complaint()
    with psycopg.connect(dsn) as other:
        open_ = str(publish(other, "orders", 1))
        assert gapless("trace", open_).complaint().endswith("it has not committed yet")
        other.rollback()
    assert "it was rolled back" in gapless("trace", open_).complaint()


@pytest.mark.long
def test_what_has_no_offset_yet(gapless, told: str, conn: Connection) -> None:
    done = gapless("trace", str(publish(conn, "orders", 1)))
    assert done.lines[0].startswith("orders (no offset yet)  1 event  transaction ")
    assert done.lines[1:] == ["├─ audit: pending", "└─ bill: pending"]
    assert done.err == "gapless: some events have no offsets yet: does a sequencer run?\n"


@pytest.mark.long
def test_what_is_left_out_and_what_is_hostile(gapless, told: str, conn: Connection) -> None:
    conn.execute(
        "insert into gapless.outbox_message_t (topic_id, key, payload, cause, correlation)"
        " select gapless.topic_id('orders'), 'k', '0', %s || n, %s from generate_series(1, 9) n",
        [HOSTILE, told],
    )
    sequence(conn)
    done = gapless("trace", told, "--limit", "3")
    assert "\x1b" not in done.out
    assert "(came of bill\\x1b[2J/orders/0@71, which is not of this chain)" in done.out
    assert done.lines[-1] == "... and 8 more units"
    assert gapless("trace", told, "--limit", "3", "--json").json["left_out"] == 8
    assert gapless("trace", told, "--limit", "1").lines[-2:] == [
        "└─ ... and 1 more unit came of it",
        "... and 9 more units",
    ]
