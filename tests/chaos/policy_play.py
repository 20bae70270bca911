"""A good run of the groups of chaos.shop, their workers' turns by hand, in the caller's process.

One dead letter is redriven, others are discarded by two people, one stays with who is parked behind it.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

from chaos.history import Asked
from chaos.producer import Draft, Producer
from chaos.run import LAG, wait_until
from chaos.shop import GROUPS, Shop
from chaos.workers import Workers
from gapless.consume.drive import Driver
from gapless.db.connect import connect
from gapless.errors import BlockedError
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic
from support.patience import patience

# Key by key: a and b are in one partition, f and i in the other.
ORDERS: dict[str, dict[str, str]] = {
    "first": {"a": ""},
    "second": {"a": "", "b": ""},
    "raise": {"a": "raise"},
    "behind raise": {"a": ""},
    "beside raise": {"b": ""},
    "across": {"a": "", "b": ""},
    "behind across": {"b": ""},
    "flaky": {"f": "flaky"},  # first, for it undoes what fails beside it
    "skip": {"f": "skip"},
    "mend": {"f": "mend"},
    "behind mend": {"f": ""},
    "again": {"i": "again"},
    "dead": {"i": "dead"},
    "behind dead": {"i": ""},
}
_KEYS = """
select array_agg(k order by k) from (
  select 'k' || n as k, gapless.partition_of('k' || n, %s) as p from generate_series(1, 40) n
) keys
group by p order by p
"""


class Play(Workers):
    """A good run of the groups of a shop."""

    def __init__(self, dsn: str, conn: Connection[Any], folder: Path, partitions: int = 2) -> None:
        super().__init__(dsn, conn, folder, Shop(folder, dsn, "t"))
        self.topic: Topic = ensure_topic(conn, "t", partitions=partitions)

    def play(self) -> None:
        for group in GROUPS:
            self.writer.write(group)
        drivers = [driver for group in GROUPS for driver in self.drivers(group.group)]
        self.publish()
        self.rest(drivers)
        assert self.ask("redrive_letter", "billing", "mend") == "asked"
        self.rest(drivers)  # handled, or refused for the second time
        self.ask("redrive_letter", "billing", "mend")
        for group in ("stock", "mail"):
            told = [self.ask("discard_letter", group, "raise", "of no use") for _ in range(2)]
            assert told == ["discarded", "discarded already"]
            for outcome in told:
                units = ((f"{group}/raise", outcome),)
                self.writer.write(Asked(verb="discard", together=group, units=units))
        self.rest(drivers)

    def publish(self) -> None:
        rows = self.conn.execute(_KEYS, [self.topic.partitions]).fetchall()
        (one,), (other,) = rows[:2]
        keys = {"a": one[0], "b": one[1], "f": other[0], "i": other[1]}
        producer = Producer("p", lambda: connect(self.dsn, role="producer"), self.writer)
        for order, events in ORDERS.items():
            drafts = [Draft(key=keys[key], does=does) for key, does in events.items()]
            assert producer.order(order, drafts) == "ok"
        producer.close()
        sequence(self.conn)

    def drivers(self, group: str) -> Iterator[Driver]:
        """Own all partitions of a group."""
        handler = self.shop.handler(next(each for each in GROUPS if each.group == group))
        return self.own_all(self.topic, handler, batch_size=5)

    def rest(self, drivers: list[Driver]) -> None:
        """Let everything be handled that can be."""

        def is_done() -> bool:
            for driver in [each for each in drivers for _ in range(2)]:  # again at once: too early?
                with suppress(BlockedError, psycopg.errors.SerializationFailure):
                    driver.has_due()
                    driver.turn()
            row = self.conn.execute(LAG).fetchone()
            return row == (0,)

        assert wait_until(is_done, patience(30)), "not all is handled"

    def ask(self, verb: str, group: str, order: str, *more: str) -> str:
        rest = ", %s" * len(more)
        row = self.conn.execute(
            f"select gapless.{verb}(d.group_id, 't', d.partition_id, d.first_offset{rest})"
            " from gapless.dead_letter d join gapless.dead_letter_event e"
            " using (group_id, topic_id, partition_id, first_offset)"
            " join chaos.business b on e.event_type = b.attempt || '/0'"
            " where d.group_id = %s and b.order_key = %s",
            [*more, group, order],
        ).fetchone()
        assert row is not None
        return str(row[0])
