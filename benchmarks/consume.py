"""Consuming: a worker with a no-op handler against psycopg alone and against a counter design."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection

import gapless
from benchmarks import counters
from benchmarks.bare import COMMITTED, WARM_UP, BareReader, begin_offsets, event_ids
from benchmarks.claims import Claims, Rows
from benchmarks.cost import Cost, Meter, cost_figures
from benchmarks.drain import decoding, drain, new_group, noop
from benchmarks.figure import Figure, Target, alternate
from benchmarks.fill import fill_outbox
from benchmarks.server import Setup
from gapless.consume.batch import Batch
from gapless.consume.drive import GOES_ON_S
from gapless.consume.job import Job, Step
from gapless.consume.step import step
from gapless.consume.terms import agree
from gapless.consume.user.handler import Handler
from gapless.db.connect import connect
from gapless.lease import hold
from gapless.lease.member import Member, Subscription, Timing
from gapless.log.topics import Topic, ensure_topic
from gapless.settings import Settings

PAYLOAD_BYTES = 300
UNIT_SIZES = (1, 10)
BATCHES = (1000, 100)

RAW = "psycopg alone"
RAW_DECODED = "psycopg alone, decoding"
COUNTERS = counters.WELL
COUNTERS_DECODED = f"{counters.WELL}, decoding"
COUNTERS_PUBLISHED = f"{counters.NAME}, as published"
STEP = "step()"
STEP_BATCH = "step(), batch handler"
STEP_DECODED = "step(), decoding"
WORKER = "a worker process"
RIVALS = (RAW, COMMITTED, RAW_DECODED, COUNTERS, COUNTERS_DECODED, COUNTERS_PUBLISHED)

_decode = json.JSONDecoder().decode  # as gapless and psycopg do it: the encoding is known

_Rates = dict[str, tuple["_Rate", ...]]


class _Rate(NamedTuple):
    """Events per second, and what one costs."""

    per_s: float
    cost: Cost


def run(setup: Setup) -> list[Figure]:
    """Fill one partition a unit size, and read it over and over."""
    events = setup.pick(2_000, 20_000, 150_000)
    figures: list[Figure] = []
    with setup.database("consume") as dsn, connect(dsn, role="bench") as conn:
        counters.create(dsn, 1)
        counters.fill(dsn, partitions=1, events=events, payload_bytes=PAYLOAD_BYTES)
        for unit_events in UNIT_SIZES:
            topic = ensure_topic(conn, f"units-of-{unit_events}", partitions=1)
            _fill(dsn, topic, events, unit_events)
            for batch in BATCHES:
                results = alternate(
                    setup.rounds, _ways(setup, dsn, topic, batch, events, unit_events)
                )
                figures += _figures(results, f"units of {unit_events}, batch {batch}")
    return figures


def _fill(dsn: str, topic: Topic, events: int, unit_events: int) -> None:
    fill_outbox(
        dsn, topic.topic_id, events=events, payload_bytes=PAYLOAD_BYTES, events_a_commit=unit_events
    )


def _ways(
    setup: Setup, dsn: str, topic: Topic, batch: int, events: int, unit_events: int
) -> dict[str, Callable[[], _Rate]]:
    """Return the ways to read a topic that are compared; the slower ones for one size only."""
    ways: dict[str, Callable[[], _Rate]] = {
        RAW: partial(_raw, dsn, topic, batch),
        COMMITTED: partial(_raw, dsn, topic, batch, committed=True),
        COUNTERS: partial(_counters, dsn, batch, events),
        STEP: partial(_steps, dsn, topic, batch, noop),
        STEP_DECODED: partial(_steps, dsn, topic, batch, decoding),
        RAW_DECODED: partial(_raw, dsn, topic, batch, is_decoded=True),
    }
    if unit_events == UNIT_SIZES[0]:
        ways |= {
            COUNTERS_DECODED: partial(_counters, dsn, batch, events, is_decoded=True),
            COUNTERS_PUBLISHED: partial(_counters, dsn, batch, events, is_published=True),
            STEP_BATCH: partial(_steps, dsn, topic, batch, _noop_batch, batch=True),
        }
        if batch == BATCHES[0] or setup.size == "full":
            ways[WORKER] = partial(_worker, dsn, topic, batch, events)
    return ways


def _figures(results: _Rates, what: str) -> list[Figure]:
    most, all_of_it = Target("ratio", at_least=0.6), Target("ratio", at_least=1)

    def figure(name: str, against: str, target: Target | None = None) -> Figure:
        return Figure(
            what=f"{what}: {name}",
            unit="events/s",
            ours=tuple(rate.per_s for rate in results[name]),
            baseline=tuple(rate.per_s for rate in results[against]),
            against=against,
            target=target,
        )

    def costs(name: str, against: str) -> list[Figure]:
        ours, theirs = ([rate.cost for rate in results[each]] for each in (name, against))
        return cost_figures(f"{what}: {name}", ours, theirs, against)

    figures = [
        figure(name, RAW, most) for name in results if name not in RIVALS and name != STEP_DECODED
    ]
    figures += [
        figure(STEP_DECODED, RAW_DECODED, most),
        figure(STEP, COMMITTED),
        figure(STEP, COUNTERS, all_of_it),
    ]
    if COUNTERS_DECODED in results:
        figures += [
            figure(STEP_DECODED, COUNTERS_DECODED, all_of_it),
            figure(STEP, COUNTERS_PUBLISHED),
        ]
    raw, counted = costs(STEP, RAW), costs(STEP, COUNTERS)
    if COUNTERS_DECODED in results:
        return [*figures, *raw, *counted]
    return [*figures, raw[0], counted[0]]


def _noop_batch(_batch: Batch, _conn: Connection[Any]) -> None:
    pass


def _handler(topic: Topic, batch_size: int, function: Any, *, batch: bool) -> Handler:
    """Return a handler of a group that has read nothing yet."""
    decorate = gapless.handler(
        topic=topic.name,
        group=new_group("consume"),
        batch_size=batch_size,
        batch=batch,  # type: ignore[call-overload]
    )
    made: Handler = decorate(function)
    return made


def _raw(
    dsn: str, topic: Topic, batch_size: int, *, committed: bool = False, is_decoded: bool = False
) -> _Rate:
    """Read all rows as nobody can read them faster in Python."""
    if committed:
        begin_offsets(dsn, 1)
    with psycopg.connect(dsn, autocommit=True) as conn:
        ids = event_ids(conn, topic.topic_id)
        reader = BareReader(
            conn, batch_size, committed_as=1 if committed else None, is_decoded=is_decoded
        )
        portions = reader.warm_up(ids)
        meter, began_s = Meter(dsn), monotonic()
        for portion in portions:
            reader.read(portion)
        return _Rate(len(ids) / (monotonic() - began_s), meter.of(len(ids)))


def _counters(
    dsn: str,
    batch_size: int,
    events: int,
    *,
    is_decoded: bool = False,
    is_published: bool = False,
) -> _Rate:
    """Read all rows of the counter design's one partition, each batch committed."""
    group = new_group("counters")
    counters.join(dsn, [group])
    params = {"group_id": group, "partition_id": 0, "events": batch_size}
    done = 0
    with psycopg.connect(dsn, autocommit=True) as conn:
        claims = Claims(conn, counters.claim_statement(0), is_decoded=False)
        for _ in range(WARM_UP):
            claims.next({**params, "events": 1})
        claims.commit()
        meter, began_s = Meter(dsn), monotonic()
        while rows := _published(conn, params) if is_published else claims.next(params):
            done += len(rows)
            if is_decoded:
                for _, payload, _ in rows:
                    _decode(payload.decode())
        took_s = monotonic() - began_s
    assert done == events - WARM_UP, f"{done} of {events}"
    return _Rate(done / took_s, meter.of(done))


def _published(conn: Connection[Any], params: dict[str, Any]) -> Rows:
    with conn.transaction():
        return counters.claim(conn, params["group_id"], params["partition_id"], params["events"])


def _steps(dsn: str, topic: Topic, batch_size: int, function: Any, *, batch: bool = False) -> _Rate:
    """Loop over step() as a driver does, as the owner of the partition."""
    handler = _handler(topic, batch_size, function, batch=batch)
    terms = agree(handler, Settings(batch_size=batch_size))
    with connect(dsn, role="bench") as conn:
        member, held = _take(conn, handler, topic)
        turn = Job(conn=conn, assignment=held.assignment, handler=handler, terms=terms)
        for _ in range(WARM_UP):  # a new backend reads its catalogues, compiles its functions
            step(turn, batch_size=1)
        turn.backlog.forget()
        events = 0
        meter, began_s = Meter(dsn), monotonic()
        while (done := _turn(turn)).outcome == "done":
            events += done.events
        rate = _Rate(events / (monotonic() - began_s), meter.of(events))
        member.leave()
        return rate


def _turn(turn: Job) -> Step:
    """Step as long as a driver does."""
    until_s = monotonic() + GOES_ON_S
    return step(turn, goes_on=lambda: monotonic() < until_s)


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


def _worker(dsn: str, topic: Topic, batch_size: int, events: int) -> _Rate:
    """Let a supervisor's worker read everything."""
    handler = _handler(topic, batch_size, noop, batch=False)
    return _Rate(*drain(dsn, [handler], events=events, partitions=1))
