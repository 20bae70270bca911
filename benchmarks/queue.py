"""Queue groups beside queues in tables and those of others: what an event costs, and faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import psycopg

from benchmarks import queue_deep, queue_faults, queue_held
from benchmarks.cost import Cost
from benchmarks.crew import Job, crew
from benchmarks.drain import Drained
from benchmarks.figure import Figure, Target, alternate
from benchmarks.fill import fill_outbox
from benchmarks.queries import query
from benchmarks.queue_ways import DELETED, OURS, PAYLOAD_BYTES, READ, Ours, Way, ways, work
from benchmarks.rivals import find
from benchmarks.server import Setup
from benchmarks.turns import take_turns
from gapless.db.connect import connect
from gapless.log.topics import ensure_topic

WORKERS = 4
BATCHES = (1, 10, 100)
# Their workers take a job as they like; those that always decode it are compared with our decoding.
OTHERS = ("procrastinate", "pgqueuer")
OURS_DECODED = "ours, decoding"
PATIENCE_S = 600.0
BOUND = "at best 1.3: a row of the queue is written, and an event of the log is read"

_Results = dict[str, tuple[Drained, ...]]


def run(setup: Setup) -> list[Figure]:
    """Empty queues of each kind, and then see what a queue group does when something goes wrong."""
    return [
        *(figure for batch in BATCHES for figure in _emptied(setup, batch)),
        *queue_held.run(setup),
        *queue_faults.run(setup),
        *queue_deep.run(setup),
    ]


def _emptied(setup: Setup, batch: int) -> list[Figure]:
    """Let 4 workers empty a queue in one partition or table, over and over."""
    # So many that what a worker compiles in its first second is a hundredth of its work.
    events = setup.pick(
        10 * batch, *{1: (2_000, 5_000), 10: (10_000, 24_000)}.get(batch, (40_000, 80_000))
    )
    rounds = setup.pick(1, 2, 2)
    others = {name: rival for name in OTHERS if (rival := find(name)) is not None}
    with setup.database("queue") as dsn, connect(dsn, role="bench") as conn:
        topic = ensure_topic(conn, "queue", partitions=1)
        fill_outbox(
            dsn,
            topic.topic_id,
            events=events,
            payload_bytes=PAYLOAD_BYTES,
            events_a_commit=queue_deep.A_COMMIT,
        )
        found = ways("queue")
        in_turns = found if batch == 1 else {}
        figures = _in_turns(dsn, in_turns, batch, events)
        runs: dict[str, Callable[[], Drained]] = {
            name: partial(_drained, dsn, way, batch, events)
            for name, way in found.items()
            if name not in in_turns
        }
        runs[OURS_DECODED] = partial(_drained, dsn, Ours("queue"), batch, events, is_decoded=True)
        results = alternate(rounds, runs)
        fewer = setup.pick(WORKERS * batch, *{1: (200, 400)}.get(batch, (400, 800)))
        foreign = {
            name: partial(_foreign, setup, rival, batch, fewer) for name, rival in others.items()
        }
        results |= alternate(1, foreign)
    what = f"{WORKERS} workers, batch {batch}"
    for name in [name for name in runs if name not in (OURS, OURS_DECODED)]:
        figures += _figures(f"{what}, payload as bytes", results, OURS, name, batch)
    ours = {**results, OURS_DECODED: results[OURS_DECODED][:1]}
    for name in others:
        figures += _figures(f"{what}, payload decoded", ours, OURS_DECODED, name, batch)
    absent = [name for name in (*OTHERS, "pgmq") if find(name) is None]
    return [*figures, *(_absent(what, results[OURS_DECODED], name) for name in absent)]


def _in_turns(dsn: str, found: Mapping[str, Way], batch: int, events: int) -> list[Figure]:
    """Let one worker of each kind take and finish a batch, call by call beside ours."""
    what = f"1 worker, batch {batch}, payload as bytes"
    figures: list[Figure] = []
    noise: list[Figure] = []
    for name in [name for name in found if name != OURS]:
        with ExitStack() as stack:
            sides = {}
            for side in (name, OURS):
                each = found[side]
                each.fill(dsn, events)
                if isinstance(each, Ours):
                    each.join(dsn, batch)
                sides[side] = stack.enter_context(each.working(dsn, batch, is_decoded=False))
            turns = take_turns(dsn, sides, turns_max=events // WORKERS)
        figures += _figures(what, turns.drained(), OURS, name, batch)
        noise = turns.noise(what, OURS)
    return [*figures, *noise]


def _figures(what: str, results: _Results, ours: str, against: str, batch: int) -> list[Figure]:
    """Return server CPU and WAL of an event, and events a second."""
    no_more = Target("ratio", at_most=1.5 if batch == 1 else 1.2) if against == DELETED else None
    if against == READ and batch == max(BATCHES):
        no_more = Target("ratio", at_most=0.5)
    is_first = against == DELETED and batch == max(BATCHES)

    def figure(
        unit: str, value: Callable[[Drained], float | None], target: Target | None = None
    ) -> Figure:
        mine, theirs = (
            tuple(found for each in results[name] if (found := value(each)) is not None)
            for name in (ours, against)
        )
        return Figure(
            what=what,
            unit=unit,
            ours=mine,
            baseline=theirs,
            against=against,
            target=target,
            bound=BOUND if batch == 1 and against == DELETED and "CPU" in unit else "",
        )

    return [
        figure("µs server CPU/event", lambda each: each.cost.server_us, no_more),
        figure(
            "WAL bytes/event",
            lambda each: each.cost.wal_bytes,
            Target("value", at_most=10) if is_first else None,
        ),
        figure("events/s", lambda each: each.per_s),
    ]


def _absent(what: str, results: Sequence[Drained], name: str) -> Figure:
    ours = tuple(each.per_s for each in results)
    return Figure(what=what, unit="events/s", ours=ours, against=f"{name}, which is not installed")


def _drained(dsn: str, way: Any, batch: int, events: int, *, is_decoded: bool = False) -> Drained:
    way.fill(dsn, events)
    if isinstance(way, Ours):
        way.join(dsn, batch)
    return _spent(dsn, [partial(work, way, dsn, batch, is_decoded=is_decoded)] * WORKERS, events)


def _foreign(setup: Setup, rival: Any, batch: int, events: int) -> Drained:
    """Let workers of a library empty its queue; each is done when nothing is left to take."""
    (drain,) = rival.drains.values()
    share = events // WORKERS
    with setup.database("queue_foreign") as dsn:
        rival.create(dsn)
        with crew([partial(rival.publish, dsn, events, WORKERS)]) as writer:
            writer.join(PATIENCE_S)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(query("vacuum"))
        return _spent(dsn, [partial(drain.decoded, dsn, share, batch)] * WORKERS, events)


def _spent(dsn: str, jobs: Sequence[Job], events: int) -> Drained:
    with crew(jobs, metered_dsn=dsn) as workers:
        workers.join(PATIENCE_S)
    assert workers.done == events, f"{workers.done} of {events}"
    assert workers.meter is not None
    cost: Cost = workers.meter.of(events)
    return Drained(events / workers.took_s, cost)
