"""A good run of the chain, its workers' turns by hand, in the caller's process.

The handlers of all three groups know nothing when they begin, and work in batches of several units.
One unit in eight is refused, or does something else that is odd.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Connection

from chaos.chain import GROUPS, LATE, WAYS, links
from chaos.chain_shop import link_handler
from chaos.producer import Draft, Producer
from chaos.run import LAG, wait_until
from chaos.shop import Shop
from chaos.workers import Workers
from gapless.consume.drive import Driver
from gapless.errors import BlockedError
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.patience import patience

SEED = 7
KEYS = [f"k{number}" for number in range(6)]
DEEDS = ("", "raise", "", "", "skip", "", "", "flaky", "", "", "mend", "", "", "", "dead", "")


class ChainPlay(Workers):
    """A good run of the chain, over partitions for the orders and so many for what is below."""

    def __init__(
        self, dsn: str, conn: Connection[Any], folder: Path, partitions: tuple[int, int] = (2, 2)
    ) -> None:
        super().__init__(dsn, conn, folder, Shop(folder, dsn))
        above, below = partitions
        self.links = [
            replace(link, ways=ways, batch_size=size)
            for link, ways, size in zip(
                links(SEED), (WAYS, (*WAYS, LATE), ()), (40, 7, 500), strict=True
            )
        ]
        self.topics = [
            ensure_topic(conn, link.topic, partitions=below if number else above)
            for number, link in enumerate(self.links)
        ]

    def play(self, orders: int) -> None:
        for group, link in zip(GROUPS, self.links, strict=True):
            self.writer.write(group)
            self.writer.write(link)
        drivers = [driver for number in range(len(GROUPS)) for driver in self.drivers(number)]
        self.publish(orders)
        self.rest(drivers)

    def publish(self, orders: int) -> None:
        random = Random(SEED)  # what is published for a unit follows from these ids
        producer = Producer(
            "p",
            lambda: self.session("producer"),
            self.writer,
            make_id=lambda: UUID(int=random.getrandbits(128)),
        )
        for number in range(orders):
            drafts = [
                Draft(key=KEYS[(number + n) % len(KEYS)], topic=self.links[0].topic)
                for n in range(1 + number % 3)
            ]
            drafts[-1] = replace(drafts[-1], does=DEEDS[number % len(DEEDS)])
            assert producer.order(f"order {number}", drafts) == "ok"

    def drivers(self, number: int) -> Iterator[Driver]:
        """Own all partitions of a group."""
        handler = link_handler(self.shop, GROUPS[number], self.links[number])
        return self.own_all(self.topics[number], handler)

    def rest(self, drivers: Sequence[Driver]) -> None:
        """Let everything be handled that can be."""

        def is_done() -> bool:
            sequence(self.conn)
            for driver in drivers:
                with suppress(BlockedError, psycopg.OperationalError):  # what passes
                    driver.has_due()
                    driver.turn()
            row = self.conn.execute(f"select gapless.pending(), ({LAG})").fetchone()
            return row == (False, 0)

        assert wait_until(is_done, patience(60)), "not all is handled"
