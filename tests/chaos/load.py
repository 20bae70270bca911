"""A producer that never stops: `python -m chaos.load DSN FOLDER NAME SEED RATE`.

Every order is one transaction: its business row, and events for several partitions, some of them in
savepoints that are rolled back, some with a transaction_id of their own. An order whose COMMIT got
no answer is tried again under the same key until its fate is known. SIGTERM ends it between orders.
"""

import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from itertools import count, cycle
from math import inf
from pathlib import Path
from random import Random
from uuid import uuid4

import psycopg

from chaos.deeds import DEADLY, KILLERS
from chaos.effects import session
from chaos.history import Writer
from chaos.producer import Draft, Producer

TOPIC = "orders"
KEYS = [f"k{number}" for number in range(24)]
# Units that die park whoever shares a key with them, and whoever shares one with those: so they have
# keys of their own, which other orders use now and then; or, as those that end their worker, one that
# nobody else uses: they are never parked themselves.
RISKY_KEYS = [f"r{number}" for number in range(12)]
RISKILY = 0.05
# What is stored beside the payload, and goes everywhere with it.
HEADERS = ("{}", '{"trace": "5f", "hops": [1, 2.5, null]}', '{"é": {"\\u2603": true}}')
HOSTS = (None, "host 1", "7b0c1a52-5a3c-4e5f-9d6e-0123456789ab", "")
USERS = (None, "ann", "bjørn o'neill")
ALONE = 0.6
EVENTS_MAX = 6
MANY_EVENTS = 120  # more than a batch, and enough for a COPY


class Orders:
    """Makes orders from a seed."""

    def __init__(self, name: str, seed: int) -> None:
        self._name = name
        self._random = Random(f"{seed} {name}")
        self._numbers = count(1)
        self._deeds = Deeds(self._random, int(name[1:]))

    def publish_one(self, producer: Producer) -> None:
        """Publish the next order; return when its fate is known."""
        random = self._random
        number = next(self._numbers)
        producer.order(
            f"{self._name}/{number}",
            self.make(number),
            think_s=random.choice((0, 0, 0, 0.002, 0.01, 0.05)) if random.random() < 0.98 else 0.5,
            given_up=random.random() < 0.05,
            patience_s=inf,
        )

    def make(self, number: int) -> list[Draft]:
        """Return the events of an order, in parts of neighbours; the last one has the deed."""
        random = self._random
        unit_events = MANY_EVENTS if random.random() < 0.004 else random.randint(1, EVENTS_MAX)
        deed = self._deeds.deal(number)
        keys = self._keys(deed, number, min(3, unit_events))
        explicit = str(uuid4()) if random.random() < 0.15 else None
        made: list[Draft] = []
        while left := unit_events - len(made):
            most = random.randint(1, EVENTS_MAX) if unit_events < MANY_EVENTS else unit_events
            made += self._part(len(made), min(left, most), keys, explicit)
        return [*made[:-1], replace(made[-1], does=deed)]

    def _keys(self, deed: str, number: int, count: int) -> list[str]:
        random = self._random
        dies = deed in DEADLY
        if deed in KILLERS or (dies and random.random() < ALONE):
            return [f"{self._name}-{number}"]
        risky = dies or random.random() < RISKILY
        return random.sample(RISKY_KEYS if risky else KEYS, k=count)

    def _part(
        self, number: int, unit_events: int, keys: list[str], explicit: str | None
    ) -> list[Draft]:
        """Make neighbouring events, in a savepoint of their own now and then."""
        random = self._random
        savepoint = f"part_{number}" if random.random() < 0.25 else None
        undone = savepoint is not None and random.random() < 0.5
        plain = random.random() < 0.4
        return [
            Draft(
                key=random.choice(keys),
                topic=TOPIC,
                undone=undone,
                savepoint=savepoint,
                plain=plain,
                transaction_id=explicit,
                payload=(("n", n), ("pad", "x" * random.choice((0, 10, 400)))),
                headers=random.choice(HEADERS),
                host_id=random.choice(HOSTS),
                user_id=random.choice(USERS),
            )
            for n in range(unit_events)
        ]


class Deeds:
    """Deals what the events of orders make their handlers do: each kind in its turn, and seldom.

    first: with which of the kinds to begin, so that several producers deal different ones.
    """

    def __init__(self, random: Random, first: int) -> None:
        self._random = random
        self._rare = cycle([*RARE[first % len(RARE) :], *RARE[: first % len(RARE)]])
        self._common: list[str] = []

    def deal(self, number: int) -> str:
        """Return what one event of the n-th order does; "" mostly."""
        if number % RARE_EVERY == RARE_FIRST:
            return next(self._rare)
        if self._random.random() > COMMONLY:
            return ""
        if not self._common:
            self._common = self._random.sample(COMMON, k=len(COMMON))
        return self._common.pop()


RARE = KILLERS  # each of them costs every group some workers
RARE_EVERY, RARE_FIRST = 120, 15  # orders
COMMON = [*("raise", "mend", "again", "dead", "skip", "flaky", "cut") * 2, *["slow"] * 6]
COMMONLY = 0.15  # of orders


class Brake:
    """Slows a producer down while some group is far behind.

    A machine on which producers are faster than handlers collects a backlog for as long as a run lasts, and a
    soak of half an hour then ends without a verdict: what is not handled in time counts neither way.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._look_again_s = 0.0
        self._behind = 0

    def rest_s(self) -> float:
        """Return for how many seconds to rest before the next order."""
        if time.monotonic() >= self._look_again_s:
            self._behind = self._look()
            self._look_again_s = time.monotonic() + LOOK_S
        return SLOWED_S if self._behind > BEHIND_MAX else 0.0

    def _look(self) -> int:
        """Return by how many events the slowest group is behind; what it was, if nobody can say."""
        with (
            suppress(psycopg.Error),
            session(self._dsn, "brake") as conn,
        ):
            row = conn.execute(_BEHIND).fetchone()
            return int(row[0]) if row else 0
        return self._behind


_BEHIND = """
select coalesce(max(g.behind), 0)
from (
  select sum(greatest(0, n.last + 1 - c.next_offset)) as behind
  from gapless.consumer_offsets c
  cross join lateral (
    select coalesce(max(s.last_offset), 0) as last from gapless.log_segment s
    where (s.topic_id, s.partition_id) = (c.topic_id, c.partition_id)
  ) n
  group by c.group_id
) g
"""
BEHIND_MAX = 3000  # events of the slowest group; more than a restart of the server leaves behind
LOOK_S = 5.0
SLOWED_S = 2.0  # not for ever: a partition that stands still is found by what waits for it


def main(dsn: str, folder: str, name: str, seed: str, rate: str) -> None:
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    producer = Producer(name, lambda: session(dsn, name), Writer(Path(folder), name))
    orders = Orders(name, int(seed))
    brake = Brake(dsn)
    pace = Random(seed)
    while not stopping:
        orders.publish_one(producer)
        time.sleep(pace.uniform(0, 2 / float(rate)) + brake.rest_s())


if __name__ == "__main__":
    main(*sys.argv[1:])
