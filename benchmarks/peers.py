"""Queues of others where installed: publish in batches, and drain with one worker process."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import psycopg

import gapless
from benchmarks.crew import Cue, crew
from benchmarks.drain import Drained, drain, noop_handler
from benchmarks.figure import Figure, alternate
from benchmarks.fill import sequence_all
from benchmarks.rivals import NAMES, PAYLOAD, Rival, Work, find
from benchmarks.server import Setup
from gapless import NewEvent
from gapless.db.connect import connect
from gapless.log.sequence import create_chunks
from gapless.log.topics import ensure_topic

BATCH = 100
TOPIC = "peers"


class _Pair(NamedTuple):
    published: Drained
    drained: Drained


def run(setup: Setup) -> list[Figure]:
    """Measure ours and each that is there; who is not there is a dash."""
    events = setup.pick(200, 1_000, 20_000)
    rivals = {name: find(name) for name in NAMES}
    runs = {
        name: partial(_rival, setup, rival, events)
        for name, rival in rivals.items()
        if rival is not None
    }
    results = alternate(setup.pick(1, 1, 3), {**runs, "ours": partial(_ours, setup, events)})
    return [figure for name in NAMES for figure in _figures(results, name)]


def _figures(results: dict[str, tuple[_Pair, ...]], name: str) -> list[Figure]:
    ours, theirs = results["ours"], results.get(name, ())
    against = name if theirs else f"{name}, which is not installed"
    rates = [
        Figure(
            what=what,
            unit="events/s",
            ours=tuple(each[at].per_s for each in ours),
            baseline=tuple(each[at].per_s for each in theirs),
            against=against,
        )
        for at, what in enumerate((f"publish, batch {BATCH}, from Python", "drain, one worker"))
    ]
    cpu = Figure(
        what="drain, one worker",
        unit="µs CPU/event",
        ours=tuple(each.drained.cost.cpu_us or 0 for each in ours),
        baseline=tuple(each.drained.cost.cpu_us or 0 for each in theirs),
        against=against,
    )
    return [*rates, cpu]


def _rival(setup: Setup, rival: Rival, events: int) -> _Pair:
    with setup.database("peers") as dsn:
        rival.create(dsn)
        return _Pair(_work(dsn, rival.publish, events), _work(dsn, rival.drain, events))


def _ours(setup: Setup, events: int) -> _Pair:
    with setup.database("peers") as dsn:
        with connect(dsn, role="bench") as conn:
            ensure_topic(conn, TOPIC, partitions=1)
            create_chunks(conn)
        published = _work(dsn, _publish, events)
        sequence_all(dsn)
        handlers = [noop_handler(TOPIC, BATCH)]
        return _Pair(published, drain(dsn, handlers, events=events, partitions=1))


def _publish(dsn: str, events: int, batch: int, cue: Cue) -> int:
    with psycopg.connect(dsn, autocommit=True) as conn:
        cue.begin()
        for _ in range(events // batch):
            made = [NewEvent(payload=PAYLOAD, key=str(n), event_type="bench") for n in range(batch)]
            gapless.publish(conn, TOPIC, made)
    return events


def _work(dsn: str, work: Work, events: int) -> Drained:
    """Time one process from its beginning to its end."""
    with crew([partial(work, dsn, events, BATCH)], metered_dsn=dsn) as worker:
        worker.join()
    assert worker.done == events, f"{worker.done} of {events}"
    assert worker.meter is not None
    return Drained(events / worker.took_s, worker.meter.of(events))
