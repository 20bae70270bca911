"""trace(): the tree that a transaction stands in, whatever producers wrote."""

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import Connection

import gapless
from features.chains.shop import NOBODY, Shop
from gapless.consume.batch import Batch
from gapless.consume.unit import Unit
from gapless.log.cause import parse_cause
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.testing import drain


@pytest.fixture
def shop(dsn: str, conn: Connection) -> Shop:
    return Shop(dsn, conn)


class TestTree:
    @pytest.mark.long
    def test_from_anywhere_it_is_the_whole(self, shop: Shop) -> None:
        shop.order(1)
        told = shop.order(2, 2)
        shop.order(3)
        shop.all()
        (at,) = shop.conn.execute("select gapless.partition_of('k2', 2)").fetchone() or (0,)
        rows = shop.trace(told)
        assert [(r["node"], r["parent"], r["level"]) for r in rows] == [
            (1, None, 0),
            (2, 1, 1),
            (3, 2, 2),
        ]
        assert [(r["topic"], r["partition_id"], r["events"], r["group_id"]) for r in rows] == [
            ("orders", 0, 2, None),
            ("payments", at, 2, "bill"),
            ("parcels", 0, 2, "ship"),
        ]
        assert (rows[0]["first_offset"], rows[0]["last_offset"]) == (2, 3)
        assert (rows[0]["event_types"], rows[0]["keys"]) == (["t2"], ["k2"])
        assert rows[0]["published_as"] == told
        assert [r["is_asked"] for r in rows] == [True, False, False]
        for marked, row in enumerate(rows):
            again = shop.trace(row["published_as"])
            assert [r["is_asked"] for r in again] == [n == marked for n in range(3)]
            assert [{**r, "is_asked": 0} for r in again] == [{**r, "is_asked": 0} for r in rows]

    @pytest.mark.long
    def test_what_each_group_did(self, shop: Shop) -> None:
        shop.refused = {2}
        first, second, third = shop.order(1), shop.order(2), shop.order(3)
        sequence(shop.conn)
        assert shop.tree(first) == ["orders/0@1 "]
        shop.bill()
        shop.conn.execute("select gapless.create_group('audit', 'orders')")
        assert shop.tree(second) == ["orders/0@2 audit:pending, bill:dead"]
        ((row),) = shop.trace(second)
        (audit, bill) = row["groups"]
        assert audit["next_offset"] == 1
        assert (bill["letter"], bill["attempts"]) == ("dead", 1)
        assert bill["reason"] == "ValueError: refused"
        assert shop.tree(third)[0] == "orders/0@3 audit:pending, bill:handled"
        shop.conn.execute("select gapless.redrive_letter('bill', 'orders', 0, 2)")
        assert shop.tree(second) == ["orders/0@2 audit:pending, bill:waiting"]
        shop.refused = set()
        shop.bill()
        assert len(shop.tree(second)) == 2
        ((_, bill), _) = (row["groups"] for row in shop.trace(second))
        assert (bill["state"], bill["letter"]) == ("handled", "redriven")

    def test_a_group_that_was_removed_keeps_what_it_published(self, shop: Shop) -> None:
        told = shop.order(1)
        shop.bill()
        shop.conn.execute("select gapless.drop_group('bill')")
        assert shop.tree(told)[0].split() == ["orders/0@1", "bill:removed"]
        assert len(shop.tree(told)) == 2

    def test_an_id_of_ones_own_may_be_in_several_chains(self, shop: Shop) -> None:
        own = uuid4()

        @gapless.handler(topic="orders", group="bill")
        def bill(unit: Unit, conn: Connection[Any]) -> None:
            publish(conn, "payments", 0, transaction_id=own)

        first = shop.order(1)
        shop.order(2)
        drain(shop.dsn, bill)
        assert [(r["level"], r["is_asked"]) for r in shop.trace(own)] == [
            (0, False),
            (1, True),
            (0, False),
            (1, True),
        ]
        assert [r["is_asked"] for r in shop.trace(first)] == [True, False]


class TestBatches:
    def batch(self, shop: Shop, topic: str, group: str, to: str) -> None:
        @gapless.handler(topic=topic, group=group, batch=True)
        def take(batch: Batch, conn: Connection[Any]) -> None:
            publish(conn, to, len(batch))

        drain(shop.dsn, take)

    @pytest.mark.long
    def test_of_one_chain_it_stands_below_the_first_unit(self, shop: Shop) -> None:
        @gapless.handler(topic="orders", group="bill")
        def bill(unit: Unit, conn: Connection[Any]) -> None:
            for _ in range(3):
                publish(conn, "payments", 0, key="k", transaction_id=uuid4())

        told = shop.order(1)
        drain(shop.dsn, bill)
        self.batch(shop, "payments", "ship", "parcels")
        rows = shop.trace(told)
        assert [r["level"] for r in rows] == [0, 1, 2, 1, 1]
        assert rows[2]["cause"].endswith("@1..3")

    def test_of_several_it_begins_a_chain_and_says_of_what(self, shop: Shop) -> None:
        first = shop.order(1)
        shop.order(2)
        self.batch(shop, "orders", "bill", "payments")
        sequence(shop.conn)
        assert len(shop.trace(first)) == 1
        (id_,) = shop.conn.execute(
            "select transaction_id from gapless.outbox_message_t where cause is not null"
        ).fetchone() or (None,)
        ((row),) = shop.trace(id_)
        assert (row["cause"], row["detached"]) == ("bill/orders/0@1..2", "elsewhere")


class TestHostile:
    """Whoever may insert may write any cause, correlation and transaction_id."""

    @pytest.mark.few(3)
    @pytest.mark.parametrize(
        "cause",
        [
            "bill/orders/0@1",  # itself
            "bill/orders/0@2",  # what comes after it
            "bill/orders/0@999999999999999999",
            "bill/orders/999999999@1",
            "bill/nothing/0@1",
            "bill/orders/0@1~2",
            "bill/orders/0@99999999999999999999",
            "x" * 100_000,
            "/" * 50_000 + "@1",
            "",
            "\x1b[2J\u202e",
        ],
    )
    def test_a_cause_that_cannot_be(self, shop: Shop, cause: str) -> None:
        shop.insert(cause=cause, correlation=NOBODY)
        shop.insert()
        ((row),) = shop.trace(NOBODY)
        assert (row["parent"], row["level"], row["detached"]) == (None, 0, "elsewhere")
        assert row["cause"] == cause[:1000]

    def test_in_a_circle(self, shop: Shop) -> None:
        for n in (2, 3, 1):
            shop.insert(cause=f"bill/orders/0@{n}", correlation=NOBODY)
        assert [(r["first_offset"], r["level"]) for r in shop.trace(NOBODY)] == [
            (1, 0),
            (3, 1),
            (2, 0),
        ]

    def test_of_another_timeline(self, shop: Shop) -> None:
        told = shop.order(1)
        shop.insert(cause="bill/orders/0@1~2", correlation=told)
        assert [(r["level"], r["detached"]) for r in shop.trace(told)] == [
            (0, None),
            (0, "elsewhere"),
        ]
        shop.conn.execute("update gapless.log_segment set timeline = 2")
        moved = UUID(f"00000002{str(told)[8:]}")
        assert shop.trace(told)[0]["is_asked"] is False, "its xid is another one's now"
        shop.conn.execute(
            "update gapless.outbox_message_t set correlation = %s where cause is not null", [moved]
        )
        assert [r["level"] for r in shop.trace(moved)] == [0, 1]

    def test_correlations_of_each_other(self, shop: Shop) -> None:
        a, b = uuid4(), uuid4()
        shop.insert(own=a, correlation=b)
        shop.insert(own=b, correlation=a)
        assert [r["is_asked"] for r in shop.trace(a)] == [True]
        assert [r["is_asked"] for r in shop.trace(b)] == [True]

    @pytest.mark.long
    def test_many_are_bounded_and_counted(self, shop: Shop) -> None:
        told = shop.order(1)
        shop.conn.execute(
            "insert into gapless.outbox_message_t (topic_id, key, payload, cause, correlation)"
            " select gapless.topic_id('orders'), 'k', '0',"
            " case when n <= 500 then 'bill/orders/0@1' else 'x' || n end, %s"
            " from generate_series(1, 1500) n",
            [told],
        )
        sequence(shop.conn)
        *rows, last = shop.trace(told, 10)
        # The first 500 carry one cause: one unit.
        assert [r["level"] for r in rows] == [0, 1] + [0] * 8
        assert (last["state"], last["node"], last["left_out"]) == ("left-out", None, 1002 - 10)
        assert last["is_asked"] is False
        assert len(shop.trace(told, 0)) == 2
        assert len(shop.trace(told)) == 1001


@pytest.mark.writes_nothing
@pytest.mark.parametrize(
    "text",
    [
        "billing/orders/3@17",
        "billing/orders/3@17..42",
        "billing/orders/3@17~2",
        "billing/orders/3@17..42~2",
        "a/b/c/orders/3@17",
        "a\nb/orders/3@17",
        "/orders/3@17",
        "g/orders/3@",
        "g/orders/3@1..",
        "g/or ders/3@1",
        "g/orders/3@1\n",
        "g/orders/-1@1",
        "",
    ],
)
def test_a_cause_means_the_same_here_and_in_python(conn: Connection, text: str) -> None:
    row = conn.execute(
        "select group_id, topic, partition_id, first_offset from gapless.parse_cause(%s)", [text]
    ).fetchone()
    cause = parse_cause(text)
    assert row == (tuple(cause) if cause else (None,) * 4)


class TestRetention:
    @pytest.fixture
    def drop(self, shop: Shop) -> Callable[[str], None]:
        """Drop the events of a topic, as retention does."""

        def drop(topic: str) -> None:
            shop.conn.execute(
                "delete from gapless.outbox_message_t where topic_id = gapless.topic_id(%s)",
                [topic],
            )
            shop.conn.execute(
                "insert into gapless.log_start (topic_id, partition_id, first_offset, newest_ts)"
                " select s.topic_id, s.partition_id, max(s.last_offset) + 1, now()"
                " from gapless.log_segment s where s.topic_id = gapless.topic_id(%s) group by 1, 2",
                [topic],
            )

        return drop

    @pytest.mark.long
    def test_what_came_of_it_says_so(self, shop: Shop, drop: Callable[[str], None]) -> None:
        told = shop.order(1)
        shop.all()
        drop("orders")
        rows = shop.trace(told)
        assert [(r["topic"], r["level"], r["detached"]) for r in rows] == [
            ("payments", 0, "dropped"),
            ("parcels", 1, None),
        ]
        assert rows[0]["cause"] == "bill/orders/0@1"
        assert not any(r["is_asked"] for r in rows)

    @pytest.mark.long
    def test_dead_letters_are_kept(self, shop: Shop, drop: Callable[[str], None]) -> None:
        told = shop.order(1)
        shop.bill()
        shop.refused = {1}
        shop.ship()
        rows = shop.trace(told)
        drop("payments")
        again = shop.trace(told)
        assert [r["state"] for r in again] == ["sequenced", "dropped"]
        assert {**again[1], "state": "sequenced"} == rows[1]
        drop("orders")
        assert [r["state"] for r in shop.trace(rows[1]["published_as"])] == ["dropped"]
        assert shop.trace(rows[1]["published_as"])[0]["is_asked"]
