"""Publishing in bulk from Python: 1000 events of 1 KB a transaction, one connection."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from time import monotonic
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection

import gapless
from benchmarks import counters
from benchmarks.cost import Cost, Meter, cost_figures
from benchmarks.figure import Figure, Target, alternate, compared
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from gapless import NewEvent
from gapless.db.connect import connect
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic

BATCH = 1000
PARTITIONS = 8
PAYLOAD = {"pad": "x" * 990}
TEXT = '{"pad":"' + "x" * 990 + '"}'

COPY = "COPY, no trigger"
COUNTERS = counters.NAME
OURS = "publish(), dicts"
OURS_BYTES = "publish(), JSON text"

_Publish = Callable[[Connection[Any], int], None]


class _Bulk(NamedTuple):
    per_s: float
    cost: Cost


def run(setup: Setup) -> list[Figure]:
    """Publish one batch after the other; `sequencing` measures the cost of offsets afterwards."""
    with setup.database("bulk") as dsn:
        with psycopg.connect(dsn) as conn:
            conn.execute(baseline("plain"))
        counters.create(dsn, PARTITIONS)
        with connect(dsn, role="bench") as conn:
            ensure_topic(conn, "outbox", partitions=PARTITIONS)
            create_chunks(conn)
        batches = setup.pick(2, 15, 40)
        ways = {COPY: _copy, COUNTERS: _counters, OURS: _dicts, OURS_BYTES: _texts}
        for publish in ways.values():
            _measure(dsn, 2, publish)  # warm-up
        results = alternate(
            setup.rounds,
            {name: partial(_measure, dsn, batches, publish) for name, publish in ways.items()},
        )

    def figure(ours: str, against: str, at_least: float | None = None) -> Figure:
        target = Target("ratio", at_least=at_least) if at_least else None
        sides = results[ours], results[against], against
        what, per_s = f"batch {BATCH}: {ours}", attrgetter("per_s")
        return compared(what, "events/s", per_s, sides, target)

    costs = {name: [each.cost for each in rounds] for name, rounds in results.items()}
    return [
        figure(OURS, COPY, 0.8),
        figure(OURS_BYTES, COPY, 0.8),
        figure(OURS, COUNTERS, 1),
        *cost_figures(f"batch {BATCH}: {OURS}", costs[OURS], costs[COPY], COPY),
        *cost_figures(f"batch {BATCH}: {OURS}", costs[OURS], costs[COUNTERS], COUNTERS),
    ]


def _measure(dsn: str, batches: int, publish: _Publish) -> _Bulk:
    with connect(dsn, role="bench") as conn:
        meter, began_s = Meter(dsn), monotonic()
        for number in range(batches):
            publish(conn, number)
        took_s = monotonic() - began_s
        bulk = _Bulk(batches * BATCH / took_s, meter.of(batches * BATCH))
        create_chunks(conn)
        while sequence(conn):
            pass
    return bulk


def _dicts(conn: Connection[Any], _number: int) -> None:
    events = (NewEvent(payload=PAYLOAD, key=str(n), event_type="bench") for n in range(BATCH))
    gapless.publish(conn, "outbox", events)


def _texts(conn: Connection[Any], _number: int) -> None:
    payload = TEXT.encode()
    events = (NewEvent(payload=payload, key=str(n), event_type="bench") for n in range(BATCH))
    gapless.publish(conn, "outbox", events)


def _copy(conn: Connection[Any], _number: int) -> None:
    with conn.transaction(), conn.cursor() as cursor, cursor.copy(query("copy_plain")) as copy:
        for n in range(BATCH):
            copy.write_row((1, TEXT, str(n), "bench"))


def _counters(conn: Connection[Any], number: int) -> None:
    counters.write(conn, number % PARTITIONS, [TEXT.encode()] * BATCH)
