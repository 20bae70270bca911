"""Compaction: what it takes to keep the newest event of each key, beside a plain upsert."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from psycopg import Connection

from benchmarks.cost import Meter
from benchmarks.drain import Drained, drained_figures
from benchmarks.figure import Figure, alternate
from benchmarks.fill import fill_outbox, make_topic
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from gapless.db.connect import connect
from gapless.log.compaction import STEP_EVENTS_MAX, compact, set_compaction

PAYLOAD_BYTES = 300
EVENTS_A_KEY = (1, 100)
UPSERT = "an upsert of the same steps"


def run(setup: Setup) -> list[Figure]:
    """Take a log in, from its beginning, in steps: keys that come once, and keys that repeat."""
    events = setup.pick(2_000, 50_000, 300_000)
    figures: list[Figure] = []
    for events_a_key in EVENTS_A_KEY:
        with setup.database("compaction") as dsn, connect(dsn, role="bench") as conn:
            make_topic(dsn, "outbox", partitions=1)
            fill_outbox(dsn, 1, events=events, payload_bytes=PAYLOAD_BYTES)
            conn.execute(query("give_keys"), {"keys": events // events_a_key})
            conn.execute(baseline("compaction"))
            set_compaction(conn, "outbox", compact=True)
            conn.execute(query("vacuum"))
            ways: dict[str, Callable[[], Drained]] = {
                UPSERT: partial(_upsert, dsn, conn, events),
                "ours": partial(_compact, dsn, conn, events),
            }
            results = alternate(setup.rounds, ways)
        times = "once" if events_a_key == 1 else f"{events_a_key} times"
        what = f"each key {times}, {STEP_EVENTS_MAX} events a step"
        figures += drained_figures(what, results["ours"], results[UPSERT], UPSERT)
    return figures


def _compact(dsn: str, conn: Connection[Any], events: int) -> Drained:
    conn.execute(query("compaction_restart"))
    began_s, meter = perf_counter(), Meter(dsn)
    taken_in = 0
    while done := compact(conn):
        taken_in += done
    took_s = perf_counter() - began_s
    assert taken_in == events
    return Drained(events / took_s, meter.of(events))


def _upsert(dsn: str, conn: Connection[Any], events: int) -> Drained:
    conn.execute(query("compaction_upsert_restart"))
    began_s, meter = perf_counter(), Meter(dsn)
    after = taken_in = 0
    while taken_in < events:
        row = conn.execute(
            query("compaction_upsert"), {"after": after, "events": STEP_EVENTS_MAX}
        ).fetchone()
        assert row is not None
        after, done = row
        taken_in += done
    return Drained(events / (perf_counter() - began_s), meter.of(events))
