"""A good run of the chain, its workers' turns by hand, in the caller's process.

The handlers of all three groups know nothing when they begin, and work in batches of several units.
One unit in eight is refused, or does something else that is odd.
"""

from __future__ import annotations

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
from chaos.history import Writer
from chaos.policy_play import TIMING
from chaos.producer import Draft, Producer
from chaos.run import LAG, wait_until
from chaos.shop import Shop
from gapless.consume.drive import Driver
from gapless.db.connect import connect
from gapless.errors import BlockedError
from gapless.keys import Assignment
from gapless.lease import hold
from gapless.lease.member import Member, Subscription
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.patience import patience
from support.turn import turn

SEED = 7
KEYS = [f"k{number}" for number in range(6)]
DEEDS = ("", "raise", "", "", "skip", "", "", "flaky", "", "", "mend", "", "", "", "dead", "")


class ChainPlay:
    """A good run of the chain, over partitions for the orders and so many for what is below."""

    def __init__(
        self, dsn: str, conn: Connection[Any], folder: Path, partitions: tuple[int, int] = (2, 2)
    ) -> None:
        self.dsn, self.conn = dsn, conn
        self.writer = Writer(folder, "driver")
        self.shop = Shop(folder, dsn)
        self.sessions: list[Connection[Any]] = []
        above, below = partitions
        self.links = [
            replace(link, ways=ways, batch_size=size)
            for link, ways, size in zip(
                links(SEED), (WAYS, (*WAYS, LATE), ()), (40, 7, 500), strict=True
            )
        ]
        self.topic_ids = {
            link.topic: ensure_topic(
                conn, link.topic, partitions=below if number else above
            ).topic_id
            for number, link in enumerate(self.links)
        }

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
        group, link = GROUPS[number], self.links[number]
        wanted = Subscription(
            group_id=group.group, topic=link.topic, topic_id=self.topic_ids[link.topic]
        )
        member = Member(self.session(), [wanted], TIMING, name=group.group, capacity=None)
        member.sync()
        handler = link_handler(self.shop, group, link)
        for lease in member.leases():
            conn = self.session()
            assert hold.lock(conn, lease.lease_no)
            assignment = hold.take(conn, lease.partition, member.member_id)
            assert isinstance(assignment, Assignment)
            assert hold.install(conn, assignment) is not None
            yield Driver(turn(conn, assignment, handler), wait_period_s=0.01)

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

    def session(self, role: str = "worker") -> Connection[Any]:
        self.sessions.append(connect(self.dsn, role=role))
        return self.sessions[-1]

    def close(self) -> None:
        self.shop.desk.close()
        for session in self.sessions:
            session.close()
