"""Sell for a moment, and see what became of each order: python examples/shop/play.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from psycopg import Connection

import gapless

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import shop  # noqa: E402 - needs the path above
from playing import prepare, supervisor  # noqa: E402

WAIT_S = 60
ORDERS = [
    ("Ada", "book", 2),
    ("Ben", "lamp", 1),
    ("Ada", "desk", 1),
    ("Cem", "unicorn", 1),  # refused at the till: dead
    ("Ben", "book", 1),
]
EXPECTED = ["handled", "handled", "handled", "dead", "handled"]
STOCK = 1_000_000  # pieces of each article


def main() -> int:
    """Play; return 0 when all is as it has to be."""
    with gapless.connect(autocommit=True) as conn:  # from here on the embedded server stays
        prepare({"shop.orders": "till", "shop.payments": "store", "shop.reservations": "desk"})
        conn.execute((HERE / "schema.sql").read_bytes())
        for each in shop.CENTS:
            conn.execute("insert into stock values (%s, %s) on conflict do nothing", (each, STOCK))
        with supervisor(HERE / "shop.py"):
            became = sell(conn)
        sums = conn.execute(
            "select (select sum(cents) from payment), (select sum(pieces) from reservation),"
            " (select sum(%s - pieces) from stock)",
            (STOCK,),
        ).fetchone()
    assert sums is not None
    cents, reserved, gone = sums
    print(f"paid {cents / 100:.2f}, reserved {reserved} pieces, gone from stock {gone}")
    return 0 if reserved == gone and became == EXPECTED else 1


def sell(conn: Connection[Any]) -> list[str]:
    """Place the orders; return what became of each at the end of the chain."""
    placed = []
    for order in ORDERS:
        with conn.transaction():  # the order and its event, or neither
            placed.append(shop.place(conn, *order))
    ends: list[str] = []
    for (number, transaction_id), (customer, article, _) in zip(placed, ORDERS, strict=True):
        ends.append(
            gapless.wait_for(conn, "desk", transaction_id, WAIT_S, through=["till", "store"])
        )
        print(f"order {number} of {customer}, {article}: {ends[-1]}")
    return ends


if __name__ == "__main__":
    sys.exit(main())
