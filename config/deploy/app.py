"""The handlers of the deployment examples: put your own in their place."""

import psycopg

import gapless


@gapless.handler(topic="orders", group="billing")
def bill(unit: gapless.Unit, conn: psycopg.Connection) -> None:
    """Write a bill for each order, in the transaction that moves the group's offset."""
    for event in unit:
        conn.execute(
            "insert into bill (customer, total) values (%s, %s)",
            (event.key, event.payload["total"]),
        )
