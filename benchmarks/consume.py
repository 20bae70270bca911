"""Consuming: step() with a no-op handler, psycopg alone and a counter design, turn by turn."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from operator import attrgetter
from typing import Any

import psycopg
from psycopg import Connection

import gapless
from benchmarks import counters
from benchmarks.bare import COMMITTED, BareReader, event_ids
from benchmarks.claims import Claims, Rows
from benchmarks.cost import cost_figures
from benchmarks.drain import Drained, decoding, drain, new_group, noop
from benchmarks.figure import Figure, Target, alternate, compared
from benchmarks.fill import fill_outbox
from benchmarks.server import Setup
from benchmarks.stepping import stepping
from benchmarks.turns import Side, take_turns
from gapless.consume.batch import Batch
from gapless.consume.user.handler import Handler
from gapless.db.connect import connect
from gapless.log.topics import Topic, ensure_topic

PAYLOAD_BYTES = 300
UNIT_SIZES = (1, 10)
BATCHES = (1000, 100)
TURN_EVENTS = 2_000  # that are read ahead

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
CPU_MOST = {100: Target("ratio", at_most=1 / 0.82), 1000: Target("ratio", at_most=1 / 0.86)}
BOUND = "at best {}: 12 columns instead of 3, and a unit and a call for each event"

_decode = json.JSONDecoder().decode  # as gapless and psycopg do: the encoding is known

_Rates = Mapping[str, tuple[Drained, ...]]
_Way = AbstractContextManager[Side]


def run(setup: Setup) -> list[Figure]:
    """Fill one partition a unit size, and let all ways read it in turns."""
    events = setup.pick(2_000, 40_000, 80_000)
    figures: list[Figure] = []
    with setup.database("consume") as dsn, connect(dsn, role="bench") as conn:
        counters.create(dsn, 1)
        counters.fill(dsn, partitions=1, events=events, payload_bytes=PAYLOAD_BYTES)
        for unit_events in UNIT_SIZES:
            topic = ensure_topic(conn, f"units-of-{unit_events}", partitions=1)
            _fill(dsn, topic, events, unit_events)
            for batch in BATCHES:
                figures += _compared(setup, dsn, topic, batch, unit_events)
    return figures


def _compared(setup: Setup, dsn: str, topic: Topic, batch: int, unit_events: int) -> list[Figure]:
    what = f"units of {unit_events}, batch {batch}"
    with ExitStack() as stack:
        ways = _ways(dsn, topic, batch, unit_events)
        sides = {name: stack.enter_context(way) for name, way in ways.items()}
        turns = take_turns(dsn, sides, turn_events=setup.pick(200, TURN_EVENTS, TURN_EVENTS))
    figures = _figures(turns.drained(), what, batch)
    if unit_events == UNIT_SIZES[0]:
        figures += turns.noise(what, STEP_DECODED)
        figures += [_worker(setup, dsn, topic, batch)] if batch == BATCHES[0] else []
    return figures


def _fill(dsn: str, topic: Topic, events: int, unit_events: int) -> None:
    fill_outbox(
        dsn, topic.topic_id, events=events, payload_bytes=PAYLOAD_BYTES, events_a_commit=unit_events
    )


def _ways(dsn: str, topic: Topic, batch: int, unit_events: int) -> dict[str, _Way]:
    """Return the ways to read a topic to compare; the slower ones for one size only."""
    ways: dict[str, _Way] = {
        RAW: _raw(dsn, topic, batch),
        COMMITTED: _raw(dsn, topic, batch, is_committed=True),
        COUNTERS: _counters(dsn, batch),
        STEP: stepping(dsn, _handler(topic, batch, noop)),
        STEP_DECODED: stepping(dsn, _handler(topic, batch, decoding)),
        RAW_DECODED: _raw(dsn, topic, batch, is_decoded=True),
    }
    if unit_events == UNIT_SIZES[0]:
        ways |= {
            COUNTERS_DECODED: _counters(dsn, batch, is_decoded=True),
            COUNTERS_PUBLISHED: _counters(dsn, batch, is_published=True),
            STEP_BATCH: stepping(dsn, _handler(topic, batch, _noop_batch, batch=True)),
        }
    return ways


def _figures(results: _Rates, what: str, batch: int) -> list[Figure]:
    def figure(name: str, against: str, target: Target | None = None, bound: str = "") -> Figure:
        sides = results[name], results[against], against
        per_s = attrgetter("per_s")
        return compared(f"{what}: {name}", "events/s", per_s, sides, target, bound)

    def costs(name: str, against: str) -> list[Figure]:
        ours, theirs = ([each.cost for each in results[side]] for side in (name, against))
        return cost_figures(f"{what}: {name}", ours, theirs, against)

    most = Target("ratio", at_least=0.6)
    figures = [figure(name, RAW, most) for name in (STEP, STEP_BATCH) if name in results]
    figures += [
        figure(STEP_DECODED, RAW_DECODED, most),
        figure(STEP, COMMITTED),
        figure(STEP, COUNTERS, bound=BOUND.format(0.75) if COUNTERS_DECODED in results else ""),
        *costs(STEP, RAW)[:1],
        *costs(STEP, COUNTERS),
    ]
    if COUNTERS_DECODED in results:
        figures += [
            figure(STEP_DECODED, COUNTERS_DECODED, bound=BOUND.format(0.9)),
            replace(costs(STEP_DECODED, COUNTERS_DECODED)[0], target=CPU_MOST[batch]),
            figure(STEP, COUNTERS_PUBLISHED),
        ]
    return figures


def _noop_batch(_batch: Batch, _conn: Connection[Any]) -> None:
    pass


def _handler(topic: Topic, batch_size: int, function: Any, *, batch: bool = False) -> Handler:
    """Return a handler of a group that has read no event yet."""
    decorate = gapless.handler(
        topic=topic.name,
        group=new_group("consume"),
        batch_size=batch_size,
        batch=batch,  # type: ignore[call-overload]
    )
    made: Handler = decorate(function)
    return made


@contextmanager
def _raw(
    dsn: str, topic: Topic, batch_size: int, *, is_committed: bool = False, is_decoded: bool = False
) -> Iterator[Side]:
    """Read all rows in the fastest way that Python has."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        reader = BareReader(conn, batch_size, is_committed=is_committed, is_decoded=is_decoded)
        portions = iter(reader.portions(event_ids(conn, topic.topic_id)))

        def turn() -> int:
            if (portion := next(portions, None)) is None:
                return 0
            reader.read(portion)
            return len(portion)

        yield Side(conn, turn)


@contextmanager
def _counters(
    dsn: str, batch_size: int, *, is_decoded: bool = False, is_published: bool = False
) -> Iterator[Side]:
    """Read all rows of the counter design's one partition, each batch committed."""
    group = new_group("counters")
    counters.join(dsn, [group])
    params = {"group_id": group, "partition_id": 0, "events": batch_size}
    with psycopg.connect(dsn, autocommit=True) as conn:
        claims = Claims(conn, counters.claim_statement(0), is_decoded=False)

        def turn() -> int:
            rows = _published(conn, params) if is_published else claims.next(params)
            if is_decoded:
                for _, payload, _ in rows:
                    _decode(payload.decode())
            return len(rows)

        yield Side(conn, turn)
        claims.commit()


def _published(conn: Connection[Any], params: dict[str, Any]) -> Rows:
    with conn.transaction():
        return counters.claim(conn, params["group_id"], params["partition_id"], params["events"])


def _worker(setup: Setup, dsn: str, topic: Topic, batch: int) -> Figure:
    """Let a supervisor's worker read everything: a process of its own, therefore in rounds."""
    with psycopg.connect(dsn) as conn:
        events = len(event_ids(conn, topic.topic_id))

    def work() -> Drained:
        return drain(dsn, [_handler(topic, batch, noop)], events=events, partitions=1)

    def alone() -> Drained:
        with _raw(dsn, topic, batch) as side:
            (read,) = take_turns(dsn, {RAW: side}, turn_events=events).drained()[RAW]
            return read

    results = alternate(setup.rounds, {RAW: alone, WORKER: work})
    what = f"units of {UNIT_SIZES[0]}, batch {batch}: {WORKER}"
    sides, most = (results[WORKER], results[RAW], RAW), Target("ratio", at_least=0.6)
    return compared(what, "events/s", attrgetter("per_s"), sides, most)
