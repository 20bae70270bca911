"""A transaction of 100 000 events: published, sequenced, and handled as one unit, in slices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection

import gapless
from benchmarks.cost import Cost, Meter, cost_figures
from benchmarks.drain import new_group
from benchmarks.figure import Figure, alternate
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from benchmarks.supervised import supervised, wait_for
from gapless import NewEvent
from gapless.consume.unit import Unit
from gapless.db.connect import connect
from gapless.log.sequence import create_chunks

PARTITIONS = 4
PAYLOAD = b'{"pad":"' + b"x" * 290 + b'"}'
COPY = "COPY, no trigger"


class _Large(NamedTuple):
    """Events per second of publishing; seconds from its commit to the handler's; the cost."""

    per_s: float
    handled_s: float
    cost: Cost


def run(setup: Setup) -> list[Figure]:
    """Publish it with one key, so that it is one unit, and wait for its handler's commit."""
    events = setup.pick(2_000, 100_000, 100_000)
    with setup.database("large") as dsn:
        with psycopg.connect(dsn) as conn:
            conn.execute(baseline("plain"))
        results = alternate(
            setup.pick(1, 2, 2),
            {COPY: partial(_copy, dsn, events), "ours": partial(_ours, dsn, events)},
        )
    ours, rival = results["ours"], results[COPY]
    what = f"{events} events a commit"
    return [
        Figure(
            what=f"{what}: published",
            unit="events/s",
            ours=tuple(each.per_s for each in ours),
            baseline=tuple(each.per_s for each in rival),
            against=COPY,
        ),
        Figure(
            what=f"{what}: commit to handled",
            unit="s",
            ours=tuple(each.handled_s for each in ours),
        ),
        *cost_figures(
            f"{what}: published and handled",
            [each.cost for each in ours],
            [each.cost for each in rival],
            COPY,
        ),
    ]


def _ours(dsn: str, events: int) -> _Large:
    decorate = gapless.handler(topic="outbox", group=new_group("large"), start="latest")
    handler = decorate(_read)
    with connect(dsn, role="bench") as conn:
        create_chunks(conn)
        with supervised(dsn, handler, total_partitions=PARTITIONS):
            before = _progress(conn, handler.group)
            meter, began_s = Meter(dsn), monotonic()
            gapless.publish(conn, "outbox", _events(events))
            committed_s = monotonic()
            wait_for(dsn, "progress", lambda done: done == before + events, group_id=handler.group)
            handled_s = monotonic() - committed_s
            return _Large(events / (committed_s - began_s), handled_s, meter.of(events))


def _copy(dsn: str, events: int) -> _Large:
    text = PAYLOAD.decode()
    with psycopg.connect(dsn) as conn:
        meter, began_s = Meter(dsn), monotonic()
        with conn.cursor() as cursor, cursor.copy(query("copy_plain")) as copy:
            for event in _events(events):
                copy.write_row((1, text, event.key, event.event_type))
        conn.commit()
        took_s = monotonic() - began_s
    return _Large(events / took_s, 0.0, meter.of(events))


def _events(number: int) -> Iterator[NewEvent]:
    return (NewEvent(payload=PAYLOAD, key="large", event_type="bench") for _ in range(number))


def _read(unit: Unit, _conn: Connection[Any]) -> None:
    for _ in unit:
        pass


def _progress(conn: Connection[Any], group: str | None) -> int:
    row = conn.execute(query("progress"), {"group_id": group}).fetchone()
    assert row is not None
    return int(row[0])
