"""Compaction: a step that keeps the newest event of each key, beside a plain upsert, in turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from psycopg import Connection

from benchmarks.drain import drained_figures
from benchmarks.figure import Figure, Target
from benchmarks.fill import fill_outbox, make_topic
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from benchmarks.turns import Side, take_turns
from gapless.db.connect import connect
from gapless.features.compaction.latest import STEP_EVENTS_MAX, compact, set_compaction

PAYLOAD_BYTES = 300
EVENTS_A_KEY = (1, 100)
UPSERT = "an upsert of the same steps"
OURS = "ours"
BOUND = "at best 2: three indexes and 17 columns against one and four"


def run(setup: Setup) -> list[Figure]:
    """Read a log from its beginning, in steps: keys that come once, and keys that repeat."""
    events = setup.pick(2_000, 50_000, 120_000)
    figures: list[Figure] = []
    for events_a_key in EVENTS_A_KEY:
        with setup.database("compaction") as dsn, connect(dsn, role="bench") as conn:
            make_topic(dsn, "outbox", partitions=1)
            fill_outbox(dsn, 1, events=events, payload_bytes=PAYLOAD_BYTES)
            conn.execute(query("give_keys"), {"keys": events // events_a_key})
            conn.execute(baseline("compaction"))
            set_compaction(conn, "outbox", compact=True)
            conn.execute(query("vacuum"))
            sides = {
                UPSERT: Side(conn, partial(next, _upserts(conn))),
                OURS: Side(conn, partial(_compact, conn)),
            }
            turns = take_turns(dsn, sides)
        times = "once" if events_a_key == 1 else f"{events_a_key} times"
        what = f"each key {times}, {STEP_EVENTS_MAX} events a step"
        results = turns.drained()
        least = Target("ratio", at_least=0.35)
        rate, cpu, wal = drained_figures(what, results[OURS], results[UPSERT], UPSERT, least)
        figures += [rate, replace(cpu, bound=BOUND), wal, *turns.noise(what, OURS)]
    return figures


def _compact(conn: Connection[Any]) -> int:
    return compact(conn) or 0


def _upserts(conn: Connection[Any]) -> Iterator[int]:
    """Make step after step; yield the number of events of each."""
    params = {"after": 0, "events": STEP_EVENTS_MAX}
    while True:
        params["after"], done = conn.execute(query("compaction_upsert"), params).fetchall()[0]
        yield done
