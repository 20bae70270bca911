"""A shop as three handlers in a chain: shop.orders -> shop.payments -> shop.reservations.

Each writes its rows and publishes the next event in one transaction, so each link is exactly once,
and so is the chain. `gapless run examples/shop/shop.py` runs all three.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection

import gapless

CENTS = {"book": 1990, "lamp": 4500, "desk": 19900}


@gapless.handler(topic="shop.orders", group="till")
def take_payment(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Charge an order. One for an article that nobody sells is for a person: a dead letter."""
    for event in unit:
        order = event.payload
        if order["article"] not in CENTS:
            raise gapless.DeadLetter(f"nobody sells {order['article']}")
        cents = CENTS[order["article"]] * order["pieces"]
        conn.execute("insert into payment values (%s, %s)", (order["order_no"], cents))
        gapless.publish(conn, "shop.payments", order, key=event.key, event_type="order.paid")


@gapless.handler(topic="shop.payments", group="store", on_failure="retry", retry_delays_s=[0.5, 5])
def reserve(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Take the pieces from the stock; when there are not enough, the constraint says no."""
    for event in unit:
        order = event.payload
        conn.execute(
            "update stock set pieces = pieces - %s where article = %s",
            (order["pieces"], order["article"]),
        )
        conn.execute(
            "insert into reservation values (%s, %s)", (order["order_no"], order["pieces"])
        )
        gapless.publish(
            conn, "shop.reservations", order, key=event.key, event_type="order.reserved"
        )


@gapless.handler(topic="shop.reservations", group="desk")
def confirm(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Tell the customer: the end of the chain."""
    for event in unit:
        conn.execute(
            "update customer_order set state = 'reserved' where order_no = %s",
            (event.payload["order_no"],),
        )


def place(conn: Connection[Any], customer: str, article: str, pieces: int) -> tuple[int, object]:
    """Store an order and publish it, in the caller's transaction: both exist, or neither.

    pieces: units of the article. Returns its number, and the transaction_id to wait for.
    """
    row = conn.execute(
        "insert into customer_order (customer, article, pieces) values (%s, %s, %s)"
        " returning order_no",
        (customer, article, pieces),
    ).fetchone()
    assert row is not None
    order = {"order_no": row[0], "article": article, "pieces": pieces}
    return row[0], gapless.publish(
        conn, "shop.orders", order, key=customer, event_type="order.placed"
    )
