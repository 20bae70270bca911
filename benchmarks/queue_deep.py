"""Whether a queue group's claim stays as fast when much is above the floor, or much is open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any

import psycopg

from benchmarks.claims import Claims
from benchmarks.crew import crew
from benchmarks.figure import Figure, Target
from benchmarks.fill import fill_outbox
from benchmarks.queries import query
from benchmarks.queue_ways import Ours, work
from benchmarks.server import Setup
from gapless.db.connect import connect
from gapless.log.sequence import configure_chunks
from gapless.log.topics import ensure_topic

BATCH = 100
WORKERS = 4
FEW = 1_000 * BATCH
PAYLOAD_BYTES = 20
A_COMMIT = 100  # a queue takes events one by one, in any transaction size
NOTHING = "nothing finished above it"
FEWER = f"{FEW} open"


def run(setup: Setup) -> list[Figure]:
    """Time claims, and roll them back."""
    finished = setup.pick(20 * BATCH, 200_000, 200_000)
    opened = setup.pick(40 * BATCH, 400_000, 400_000)
    fill = partial(fill_outbox, payload_bytes=PAYLOAD_BYTES, events_a_commit=A_COMMIT)
    timed = partial(_timed, claims=setup.pick(20, 400, 400))
    with setup.database("queue_deep") as dsn:
        with connect(dsn, role="bench") as conn:
            # All chunks at once: none can be made beside the straggler, which has read them.
            configure_chunks(conn, chunk_events=20_000_000, chunks_ahead=2)
            topic_id = ensure_topic(conn, "queue", partitions=1).topic_id
        few = min(FEW, opened // 4)
        fill(dsn, topic_id, events=few)
        fewer = timed(dsn, topic_id, _group(dsn), 1)
        begun = _group(dsn)
        with _straggler(dsn, topic_id, begun):
            nothing = {hint: timed(dsn, topic_id, begun, hint) for hint in (BATCH + 1, None)}
            fill(dsn, topic_id, events=finished - few)
            with crew([partial(work, begun, dsn, BATCH)] * WORKERS) as workers:
                workers.join()
            more = max(opened - finished, 10 * BATCH)
            fill(dsn, topic_id, events=more)
            above = {
                hint: timed(dsn, topic_id, begun, at)
                for hint, at in ((BATCH + 1, finished + 1), (None, None))
            }
        many = timed(dsn, topic_id, _group(dsn), 1)
    what = f"a claim of {BATCH}, a straggler and {finished} finished above it"
    flat = Target("ratio", at_most=1.2)
    return [
        _figure(
            f"{what}: from the last place", above[BATCH + 1], nothing[BATCH + 1], NOTHING, flat
        ),
        _figure(f"{what}: from the floor", above[None], nothing[None], NOTHING),
        _figure(f"a claim of {BATCH}, {finished + more} open", many, fewer, FEWER, flat),
    ]


def _figure(
    what: str, ours: list[float], base: list[float], against: str, target: Target | None = None
) -> Figure:
    return Figure(
        what=what,
        unit="ms",
        ours=tuple(ours),
        baseline=tuple(base),
        against=against,
        target=target,
    )


def _group(dsn: str) -> Ours:
    way = Ours("queue")
    way.fill(dsn, 0)
    way.join(dsn, BATCH)
    return way


@contextmanager
def _straggler(dsn: str, topic_id: int, way: Ours) -> Iterator[None]:
    """Hold the first block in hand during the whole measurement."""
    with psycopg.connect(dsn) as conn:
        conn.execute(query("queue_claim"), _claim(dsn, topic_id, way, None)).fetchall()
        try:
            yield
        finally:
            conn.rollback()  # it has handled nothing: its COMMIT is refused


def _timed(dsn: str, topic_id: int, way: Ours, hint: int | None, *, claims: int) -> list[float]:
    """Return the times in ms of claims that read their events, without the first few."""
    took: list[float] = []
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(query("checkpoint"))  # or the pages of the fill are written while it measures
    with psycopg.connect(dsn) as conn:
        cursor = Claims.cursor(conn, is_decoded=False)
        params = _claim(dsn, topic_id, way, hint)
        for _ in range(10 + claims):
            began_s = perf_counter()
            rows = cursor.execute(query("queue_claim"), params, prepare=True).fetchall()
            took.append((perf_counter() - began_s) * 1000)
            assert rows[0][0] == "claimed", rows[0][:3]
            conn.rollback()
    return took[10:]


def _claim(dsn: str, topic_id: int, way: Ours, hint: int | None) -> dict[str, Any]:
    group = {"group_id": way.group, "topic_id": topic_id}
    with psycopg.connect(dsn) as conn:
        row = conn.execute(query("queue_place"), group).fetchone()
    assert row is not None
    return {**group, "lease_no": row[0], "block": row[1], "batch_size": BATCH, "hint": hint}
