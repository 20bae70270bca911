"""Groups that publish what other groups handle."""

from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row

import gapless
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.testing import drain, install

Rows = list[dict[str, Any]]


NOBODY = UUID("11111111-2222-3333-4444-555555555555")


class Shop:
    """Topics orders, payments and parcels; bill publishes payments, ship parcels, track nothing."""

    def __init__(self, dsn: str, conn: Connection[Any]) -> None:
        self.dsn = dsn
        self.conn = conn
        self.refused: set[object] = set()
        install(dsn, topics={"orders": 1, "payments": 2, "parcels": 1})

    def order(self, *numbers: int) -> UUID:
        """Publish an order of one transaction, an event for each number."""
        events = [NewEvent(payload=n, key=f"k{n}", event_type=f"t{n}") for n in numbers]
        return publish(self.conn, "orders", events)

    def relay(self, topic: str, group: str, to: str | None, **options: Any) -> Handler:
        def pass_on(unit: Unit, conn: Connection[Any]) -> None:
            for event in unit:
                if event.payload in self.refused:
                    raise ValueError("refused")
                if to is not None:
                    publish(conn, to, event.payload, key=event.key)

        return gapless.handler(topic=topic, group=group, **options)(pass_on)

    def bill(self) -> None:
        drain(self.dsn, self.relay("orders", "bill", "payments"))

    def ship(self) -> None:
        drain(self.dsn, self.relay("payments", "ship", "parcels"))

    def track(self) -> None:
        drain(self.dsn, self.relay("parcels", "track", None))

    def all(self) -> None:
        self.bill()
        self.ship()
        self.track()

    def trace(self, transaction_id: object, units_max: int | None = None) -> Rows:
        with self.conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(
                "select * from gapless.trace(%s, %s)", [transaction_id, units_max]
            ).fetchall()

    def tree(self, transaction_id: object, units_max: int | None = None) -> list[str]:
        """Where the units are, indented, with the state of each group."""
        return [
            f"{'  ' * row['level']}{row['topic']}/{row['partition_id']}@{row['first_offset']}"
            f" {', '.join(each['group'] + ':' + each['state'] for each in row['groups'])}"
            for row in self.trace(transaction_id, units_max)
            if row["node"] is not None
        ]

    def insert(self, **columns: object) -> int:
        """Write an order as any producer may; returns its id."""
        row = self.conn.execute(
            "insert into gapless.outbox_message_t (topic_id, key, payload, cause, correlation, transaction_id)"
            " values (gapless.topic_id('orders'), 'k', '0', %(cause)s, %(correlation)s, %(own)s)"
            " returning id",
            {"cause": None, "correlation": None, "own": None, **columns},
        ).fetchone()
        sequence(self.conn)
        return int(row[0]) if row else 0
