"""A producer that never stops: `python -m chaos.load DSN FOLDER NAME SEED RATE`.

Every order is one transaction: its business row, and events for several partitions, some of them in
savepoints that are rolled back, some with a transaction_id of their own. An order whose COMMIT got
no answer is tried again under the same key until its fate is known. SIGTERM ends it between orders.
"""

import json
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, cycle
from pathlib import Path
from random import Random
from uuid import UUID, uuid4

import psycopg
from psycopg import Connection

import gapless
from chaos.deeds import DEADLY, KILLERS
from chaos.history import Begun, Ended, Invoke, Outcome, Sent, Writer, digest
from gapless import NewEvent
from gapless.errors import GaplessError

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
RETRY_S = 0.05
CONNECT_TIMEOUT_S = 3

_ORDER = "insert into chaos.order_done values (%s, %s) on conflict do nothing returning true"
_BUSINESS = (
    "insert into chaos.business (attempt, producer, order_key, events) values (%s, %s, %s, %s)"
)
_PLAIN = """
insert into gapless.outbox_message_t (
  topic_id, key, event_type, payload, transaction_id, headers, host_id, user_id
)
select gapless.topic_id(%s), * from unnest(
  %s::text[], %s::text[], %s::json[], %s::uuid[], %s::jsonb[], %s::text[], %s::text[]
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Neighbouring events of an order, in a savepoint of their own unless it is None.

    payloads: JSON text. plain: by INSERT instead of publish().
    """

    events: Sequence[Sent]
    payloads: Sequence[str]
    savepoint: str | None
    plain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be published at once; think_s before COMMIT, or before ROLLBACK."""

    key: str
    parts: Sequence[Part]
    think_s: float
    given_up: bool

    def events(self, attempt: str) -> list[Sent]:
        """All its events, tagged for an attempt."""
        sent = [event for part in self.parts for event in part.events]
        return [replace(event, tag=f"{attempt}/{n}") for n, event in enumerate(sent)]


class Producer:
    """Makes orders from a seed, and publishes them one after the other."""

    def __init__(self, dsn: str, folder: Path, name: str, seed: int) -> None:
        self._dsn = dsn
        self._name = name
        self._random = Random(f"{seed} {name}")
        self._writer = Writer(folder, name)
        self._numbers = count(1)
        self._deeds = Deeds(self._random, int(name[1:]))
        self._conn: Connection | None = None

    def publish_one(self) -> None:
        """Publish one order; return when its fate is known."""
        order = self.make_order()
        while (ended := self._attempt(order)) in ("info", "fail") and not (
            ended == "fail" and order.given_up
        ):
            time.sleep(self._random.uniform(0, RETRY_S))

    def make_order(self) -> Order:
        random = self._random
        unit_events = MANY_EVENTS if random.random() < 0.004 else random.randint(1, EVENTS_MAX)
        number = next(self._numbers)
        deed = self._deeds.deal(number)
        keys = self._keys(deed, number, min(3, unit_events))
        explicit = str(uuid4()) if random.random() < 0.15 else None
        parts: list[Part] = []
        left = unit_events
        while left:
            some = min(
                left, random.randint(1, EVENTS_MAX) if unit_events < MANY_EVENTS else unit_events
            )
            left -= some
            parts.append(self._part(len(parts), some, keys, explicit, "" if left else deed))
        return Order(
            key=f"{self._name}/{number}",
            parts=parts,
            think_s=random.choice((0, 0, 0, 0.002, 0.01, 0.05)) if random.random() < 0.98 else 0.5,
            given_up=random.random() < 0.05,
        )

    def _keys(self, deed: str, number: int, count: int) -> list[str]:
        random = self._random
        dies = deed in DEADLY
        if deed in KILLERS or (dies and random.random() < ALONE):
            return [f"{self._name}-{number}"]
        risky = dies or random.random() < RISKILY
        return random.sample(RISKY_KEYS if risky else KEYS, k=count)

    def _part(
        self, number: int, unit_events: int, keys: list[str], explicit: str | None, deed: str
    ) -> Part:
        """Make neighbouring events; the last of them has the deed."""
        random = self._random
        savepoint = f"part_{number}" if random.random() < 0.25 else None
        undone = savepoint is not None and random.random() < 0.5
        events, payloads = [], []
        for n in range(unit_events):
            does = deed if n == unit_events - 1 else ""
            what = {"do": does} if does else {}
            text = json.dumps({"n": n, **what, "pad": "x" * random.choice((0, 10, 400))})
            payloads.append(text)
            events.append(
                Sent(
                    tag="",
                    topic=TOPIC,
                    key=random.choice(keys),
                    headers=random.choice(HEADERS),
                    host_id=random.choice(HOSTS),
                    user_id=random.choice(USERS),
                    digest=digest(text),
                    does=does,
                    undone=undone,
                    transaction_id=explicit,
                )
            )
        plain = random.random() < 0.4
        return Part(events=events, payloads=payloads, savepoint=savepoint, plain=plain)

    def _attempt(self, order: Order) -> Ended:
        attempt = str(uuid4())
        events = order.events(attempt)
        self._writer.write(
            Invoke(attempt=attempt, producer=self._name, order=order.key, events=tuple(events))
        )
        committing = False
        ended: Ended = "fail"
        try:
            conn = self._connection()
            conn.execute("begin")
            row = conn.execute("select pg_current_xact_id()::text").fetchone()
            assert row is not None
            self._writer.write(Begun(attempt=attempt, xid=row[0]))
            if conn.execute(_ORDER, [order.key, attempt]).fetchone() is None:
                conn.execute("rollback")
                ended = "already"
            else:
                self._fill(conn, attempt, order, events)
                if order.given_up:
                    conn.execute("rollback")
                else:
                    committing = True
                    conn.execute("commit")
                    ended = "ok"
        except (psycopg.Error, GaplessError):
            lost = self._conn is None or self._conn.broken or self._conn.closed
            ended = "info" if committing and lost else "fail"
            self._let_go(lost=lost)
        self._writer.write(Outcome(attempt=attempt, ended=ended))
        return ended

    def _fill(self, conn: Connection, attempt: str, order: Order, events: list[Sent]) -> None:
        kept = sum(not event.undone for event in events)
        conn.execute(_BUSINESS, [attempt, self._name, order.key, kept])
        rest = iter(events)
        for part in order.parts:
            tagged = [next(rest) for _ in part.events]
            if part.savepoint:
                conn.execute(f"savepoint {part.savepoint}")
            self._insert(conn, part, tagged)
            if part.savepoint:
                how = "rollback to" if tagged[0].undone else "release"
                conn.execute(f"{how} {part.savepoint}")
        time.sleep(order.think_s)

    def _insert(self, conn: Connection, part: Part, events: list[Sent]) -> None:
        if part.plain:
            columns = [
                [event.key for event in events],
                [event.tag for event in events],
                list(part.payloads),
                [event.transaction_id and UUID(event.transaction_id) for event in events],
                [event.headers for event in events],
                [event.host_id for event in events],
                [event.user_id for event in events],
            ]
            conn.execute(_PLAIN, [TOPIC, *columns])
            return
        gapless.publish(
            conn,
            TOPIC,
            [
                NewEvent(
                    payload=text.encode(),
                    key=event.key,
                    event_type=event.tag,
                    headers=json.loads(event.headers),
                    host_id=event.host_id,
                    user_id=event.user_id,
                    transaction_id=event.transaction_id,
                )
                for event, text in zip(events, part.payloads, strict=True)
            ],
        )

    def _connection(self) -> Connection:
        if self._conn is None:
            self._conn = psycopg.connect(
                self._dsn,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_S,
                application_name=f"chaos/{self._name}",
            )
        return self._conn

    def _let_go(self, *, lost: bool) -> None:
        if self._conn is None:
            return
        if not lost:
            with suppress(psycopg.Error):
                self._conn.execute("rollback")
                return
        self._conn.close()
        self._conn = None


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
            psycopg.connect(
                self._dsn,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_S,
                application_name="chaos/brake",
            ) as conn,
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
    producer = Producer(dsn, Path(folder), name, int(seed))
    brake = Brake(dsn)
    pace = Random(seed)
    while not stopping:
        producer.publish_one()
        time.sleep(pace.uniform(0, 2 / float(rate)) + brake.rest_s())


if __name__ == "__main__":
    main(*sys.argv[1:])
