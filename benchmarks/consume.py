"""Consuming: one worker with a no-op handler against psycopg alone reading the same rows."""

from __future__ import annotations

from functools import partial
from itertools import count
from time import monotonic, sleep
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection
from psycopg.types.string import ByteaBinaryLoader

import gapless
from benchmarks.cpu import CpuMeter, cpu_figure
from benchmarks.figure import Figure, Target, alternate
from benchmarks.fill import fill_outbox
from benchmarks.queries import query
from benchmarks.server import Setup
from benchmarks.supervised import supervised
from gapless.consume.handler import Handler, UnitFunction
from gapless.consume.step import Limits, step
from gapless.consume.unit import Unit
from gapless.db.connect import connect
from gapless.lease import hold
from gapless.lease.member import Member, Subscription, Timing
from gapless.log.topics import Topic, ensure_topic

BATCH = 1000
PAYLOAD_BYTES = 300
TOPIC = "consume"

RAW = "psycopg reading the same ids"
STEP = "step() in this process"
STEP_EVENTS = "step(), handler looks at every event"
WORKER = "a worker process"

ROUNDS_EACH = 3  # they are short: more of them, closer together

_group_numbers = count(1)


class _Rate(NamedTuple):
    """Events per second, and the CPU time that each takes on both sides, if that is known."""

    per_s: float
    cpu_us: float | None


def run(setup: Setup) -> list[Figure]:
    """Fill one partition, one event a commit, and read it over and over."""
    events = 50_000 if setup.quick else 200_000
    with setup.database("consume") as dsn, connect(dsn, role="bench") as conn:
        topic = ensure_topic(conn, TOPIC, partitions=1)
        fill_outbox(dsn, topic.topic_id, events=events, payload_bytes=PAYLOAD_BYTES)
        results = alternate(
            setup.rounds * ROUNDS_EACH,
            {
                RAW: partial(_raw, dsn, topic),
                STEP: partial(_steps, dsn, topic, _noop),
                STEP_EVENTS: partial(_steps, dsn, topic, _every_event),
                WORKER: partial(_worker, dsn, events),
            },
        )
    target = Target("ratio", at_least=0.6)
    return [
        *(
            Figure(
                what=f"consume, batch {BATCH}: {name}",
                unit="events/s",
                ours=tuple(rate.per_s for rate in results[name]),
                baseline=tuple(rate.per_s for rate in results[RAW]),
                against=RAW,
                target=bound,
            )
            for name, bound in ((STEP, target), (STEP_EVENTS, None), (WORKER, target))
        ),
        *cpu_figure(
            f"consume, batch {BATCH}: {STEP}",
            (rate.cpu_us for rate in results[STEP]),
            (rate.cpu_us for rate in results[RAW]),
            RAW,
        ),
    ]


def _noop(_unit: Unit, _conn: Connection[Any]) -> None:
    pass


def _every_event(unit: Unit, _conn: Connection[Any]) -> None:
    for event in unit:
        event.payload_json  # noqa: B018 - having it is the point


def _handler(function: UnitFunction) -> Handler:
    """Return a handler of a group that has read nothing yet."""
    group = f"consume-{next(_group_numbers)}"
    return gapless.handler(topic=TOPIC, group=group, batch_size=BATCH)(function)


def _raw(dsn: str, topic: Topic) -> _Rate:
    """Read all rows in batches by id arrays: binary, JSON left as text, one statement a batch."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        found = conn.execute(query("ids"), {"topic_id": topic.topic_id}).fetchall()
        ids = [message_id for (message_id,) in found]
        batches = [ids[at : at + BATCH] for at in range(0, len(ids), BATCH)]
        cursor = conn.cursor(binary=True)
        cursor.adapters.register_loader("json", ByteaBinaryLoader)
        cursor.adapters.register_loader("jsonb", ByteaBinaryLoader)
        meter, began_s = CpuMeter(dsn), monotonic()
        for batch in batches:
            rows = cursor.execute(query("raw_read"), {"ids": batch}).fetchall()
            assert len(rows) == len(batch)
        return _Rate(len(ids) / (monotonic() - began_s), meter.used_us(len(ids)))


def _steps(dsn: str, topic: Topic, function: UnitFunction) -> _Rate:
    """Loop over step() as the owner of the partition."""
    handler = _handler(function)
    limits = Limits(batch_size=BATCH)
    with connect(dsn, role="bench") as conn:
        member, held = _take(conn, handler, topic)
        events = 0
        meter, began_s = CpuMeter(dsn), monotonic()
        while (done := step(conn, held.assignment, handler, limits)).outcome == "done":
            events += done.events
        rate = _Rate(events / (monotonic() - began_s), meter.used_us(events))
        member.leave()
        return rate


def _take(conn: Connection[Any], handler: Handler, topic: Topic) -> tuple[Member, hold.Held]:
    assert handler.group is not None
    subscription = Subscription(group_id=handler.group, topic=topic.name, topic_id=topic.topic_id)
    timing = Timing(ttl_ms=3_600_000, suspect_grace_ms=0, reconnect_grace_ms=0)
    member = Member(conn, [subscription], timing, name="bench", capacity=None)
    member.sync()
    (lease,) = member.leases()
    assert hold.lock(conn, lease.lease_no)
    assignment = hold.take(conn, lease.partition, member.member_id)
    assert assignment is not None
    held = hold.install(conn, assignment)
    assert held is not None
    return member, held


def _worker(dsn: str, events: int) -> _Rate:
    """Let a supervisor's worker read everything; count from the first progress that is seen."""
    handler = _handler(_noop)
    samples: list[tuple[float, int]] = []
    with supervised(dsn, handler, total_partitions=1), psycopg.connect(dsn) as conn:
        conn.autocommit = True
        while not samples or samples[-1][1] < events:
            row = conn.execute(query("progress"), {"group_id": handler.group}).fetchone()
            assert row is not None
            samples.append((monotonic(), row[0]))
            sleep(0.02)  # a look costs the machine as much as handling 100 events
    first = next(sample for sample in samples if sample[1])
    last = next(sample for sample in samples if sample[1] == events)
    return _Rate((last[1] - first[1]) / (last[0] - first[0]), None)
