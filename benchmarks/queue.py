"""Queue groups beside queues in tables and other products: the cost of an event, and faults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import psycopg

from benchmarks import queue_deep, queue_faults, queue_held
from benchmarks.cost import Cost
from benchmarks.crew import Job, crew
from benchmarks.drain import Drained
from benchmarks.figure import Figure, Target, alternate, compared
from benchmarks.fill import fill_outbox
from benchmarks.queries import query
from benchmarks.queue_ways import DELETED, OURS, PAYLOAD_BYTES, READ, Ours, Way, ways, work
from benchmarks.rivals import Rival, find
from benchmarks.server import Setup
from benchmarks.turns import take_turns
from gapless.db.connect import connect
from gapless.log.topics import ensure_topic

WORKERS = 4
BATCH = 100
# Their workers decode a job or not; those that always decode are compared with ours decoding.
OTHERS = ("procrastinate", "pgqueuer")
OURS_DECODED = "ours, decoding"
BOUND = "at best 1.3: a row of the queue is written, and an event of the log is read"
CPU_MOST = {
    (1, DELETED): Target("ratio", at_most=1.5),
    (BATCH, DELETED): Target("ratio", at_most=1.2),
    (BATCH, READ): Target("ratio", at_most=0.5),
}
WAL_MOST = {(BATCH, DELETED): Target("value", at_most=10)}

_Results = dict[str, tuple[Drained, ...]]


def run(setup: Setup) -> list[Figure]:
    """Empty queues of each kind, and then measure a queue group when something goes wrong."""
    return [
        *_one_by_one(setup),
        *_emptied(setup),
        *queue_held.run(setup),
        *queue_faults.run(setup),
        *queue_deep.run(setup),
    ]


def _one_by_one(setup: Setup) -> list[Figure]:
    """Let one worker of each kind take and finish jobs, call by call beside ours."""
    events = setup.pick(20, 2_000, 5_000)
    figures: list[Figure] = []
    with _queue(setup, events) as dsn:
        found = ways("queue")
        for name in [name for name in found if name != OURS]:
            with ExitStack() as stack:
                sides = {}
                for side in (name, OURS):
                    _fill(found[side], dsn, 1, events)
                    working = found[side].working(dsn, 1, is_decoded=False)
                    sides[side] = stack.enter_context(working)
                turns = take_turns(dsn, sides, turns_max=events // WORKERS)
            what = "1 worker, batch 1, payload as bytes"
            figures += _figures(what, turns.drained(), OURS, name, 1)
    return [*figures, *turns.noise(what, OURS)]


def _emptied(setup: Setup) -> list[Figure]:
    """Let 4 workers empty a queue in one partition or table, over and over."""
    # Enough that the compiling in a worker's first second is a hundredth of its work.
    events = setup.pick(10 * BATCH, 40_000, 80_000)
    others = {name: rival for name in OTHERS if (rival := find(name)) is not None}
    with _queue(setup, events) as dsn:
        runs = {name: partial(_drained, dsn, way, events) for name, way in ways("queue").items()}
        results = alternate(setup.pick(1, 2, 2), runs)
        decoded: dict[str, Callable[[], Drained]] = {
            OURS_DECODED: partial(_drained, dsn, Ours("queue"), events, is_decoded=True)
        }
        fewer = setup.pick(WORKERS * BATCH, 400, 800)
        for name, rival in others.items():
            decoded[name] = partial(_foreign, setup, rival, fewer)
        results |= alternate(1, decoded)
    what = f"{WORKERS} workers, batch {BATCH}"
    return [
        *(
            figure
            for name in runs
            if name != OURS
            for figure in _figures(f"{what}, payload as bytes", results, OURS, name, BATCH)
        ),
        *(
            figure
            for name in others
            for figure in _figures(f"{what}, payload decoded", results, OURS_DECODED, name, BATCH)
        ),
        *(
            _absent(what, results[OURS_DECODED], name)
            for name in (*OTHERS, "pgmq")
            if find(name) is None
        ),
    ]


@contextmanager
def _queue(setup: Setup, events: int) -> Iterator[str]:
    """Yield a database with a topic of one partition, for our queue groups."""
    with setup.database("queue") as dsn, connect(dsn, role="bench") as conn:
        topic_id = ensure_topic(conn, "queue", partitions=1).topic_id
        commit = queue_deep.A_COMMIT
        fill_outbox(
            dsn, topic_id, events=events, payload_bytes=PAYLOAD_BYTES, events_a_commit=commit
        )
        yield dsn


def _fill(way: Way, dsn: str, batch: int, events: int) -> None:
    way.fill(dsn, events)
    if isinstance(way, Ours):
        way.join(dsn, batch)


def _figures(what: str, results: _Results, ours: str, against: str, batch: int) -> list[Figure]:
    """Return server CPU and WAL of an event, and events a second."""

    def figure(
        unit: str,
        value: Callable[[Drained], float | None],
        most: Mapping[tuple[int, str], Target],
        bound: str = "",
    ) -> Figure:
        sides = results[ours], results[against], against
        return compared(what, unit, value, sides, most.get((batch, against)), bound)

    bound = BOUND if (batch, against) == (1, DELETED) else ""
    return [
        figure("µs server CPU/event", lambda each: each.cost.server_us, CPU_MOST, bound),
        figure("WAL bytes/event", lambda each: each.cost.wal_bytes, WAL_MOST),
        figure("events/s", lambda each: each.per_s, {}),
    ]


def _absent(what: str, results: Sequence[Drained], name: str) -> Figure:
    ours = tuple(each.per_s for each in results)
    return Figure(what=what, unit="events/s", ours=ours, against=f"{name}, which is not installed")


def _drained(dsn: str, way: Way, events: int, *, is_decoded: bool = False) -> Drained:
    _fill(way, dsn, BATCH, events)
    return _spent(dsn, [partial(work, way, dsn, BATCH, is_decoded=is_decoded)] * WORKERS, events)


def _foreign(setup: Setup, rival: Rival, events: int) -> Drained:
    """Let workers of a library empty its queue; each ends when nothing is left to take."""
    (drain,) = rival.drains.values()
    share = events // WORKERS
    with setup.database("queue_foreign") as dsn:
        rival.create(dsn)
        with crew([partial(rival.publish, dsn, events, WORKERS)]) as writer:
            writer.join()
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(query("vacuum"))
        return _spent(dsn, [partial(drain, dsn, share, BATCH)] * WORKERS, events)


def _spent(dsn: str, jobs: Sequence[Job], events: int) -> Drained:
    with crew(jobs, metered_dsn=dsn) as workers:
        workers.join()
    assert workers.done == events, f"{workers.done} of {events}"
    assert workers.meter is not None
    cost: Cost = workers.meter.of(events)
    return Drained(events / workers.took_s, cost)
