"""The sequencer: a large backlog in one run; a run that finds nothing, with few and many chunks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import psycopg
from psycopg import Connection

from benchmarks.figure import Figure, Target, alternate
from benchmarks.fill import fill_outbox, make_topic
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from benchmarks.turns import called, ms_figure, take_turns
from gapless.db.connect import connect
from gapless.log.sequence import create_chunks, sequence

MANY_CHUNKS = 30
CALLS, TURNS = 5, 120
IN_PLACE = "UPDATE of an offset in every row"


def run(setup: Setup) -> list[Figure]:
    """Measure the backlog, then the empty run."""
    return [_backlog(setup), *_empty(setup)]


def _backlog(setup: Setup) -> Figure:
    """Sequence copies of the same database, so that every round finds the same backlog."""
    events = setup.pick(2_000, 100_000, 200_000)
    with setup.database("backlog") as dsn:
        make_topic(dsn, "outbox", partitions=8)
        fill_outbox(dsn, 1, events=events, payload_bytes=300, events_a_commit=5, sequenced=False)
        with psycopg.connect(dsn) as conn:
            conn.execute(baseline("numbered"))
        results = alternate(
            setup.rounds,
            {
                IN_PLACE: partial(_rate, setup, events, _number_in_place),
                "ours": partial(_rate, setup, events, sequence),
            },
        )
    return Figure(
        what=f"{events} pending events in one run",
        unit="events/s",
        ours=results["ours"],
        baseline=results[IN_PLACE],
        against=IN_PLACE,
        target=Target("value", at_least=200_000),
    )


def _rate(setup: Setup, events: int, give_offsets: Callable[[Connection[Any]], int]) -> float:
    with (
        setup.database("backlog_copy", template="backlog") as dsn,
        connect(dsn, role="bench") as conn,
    ):
        began_s = perf_counter()
        done = give_offsets(conn)
        took_s = perf_counter() - began_s
    assert done == events, f"{done} of {events}"
    return events / took_s


def _number_in_place(conn: Connection[Any]) -> int:
    return conn.execute(query("number_in_place")).rowcount


def _empty(setup: Setup) -> list[Figure]:
    figures: list[Figure] = []
    for chunks in (1, setup.pick(3, MANY_CHUNKS, MANY_CHUNKS)):
        with setup.database("empty") as dsn, connect(dsn, role="bench") as conn:
            made = _fill_chunks(dsn, conn, chunks)
            sides = {
                "select 1": called(conn, _nothing),
                "ours": called(conn, sequence),
            }
            turns = take_turns(dsn, sides, turn_events=CALLS, turns_max=TURNS)
        results = turns.drained()
        what, most = f"a run with nothing pending, {made} chunks", Target("value", at_most=0.3)
        figures.append(ms_figure(what, results["ours"], results["select 1"], "select 1", most))
    return [*figures, *turns.noise(what, "ours")]


def _fill_chunks(dsn: str, conn: Connection[Any], chunks: int) -> int:
    """Fill `chunks` small chunks; return how many there are, the empty ones ahead included."""
    conn.execute(query("small_chunks"))
    for _ in range(chunks):
        create_chunks(conn)
        make_topic(dsn, "outbox", partitions=8)
        fill_outbox(dsn, 1, events=1000, payload_bytes=300, events_a_commit=100)
    row = conn.execute(query("chunk_count")).fetchone()
    assert row is not None
    return int(row[0])


def _nothing(conn: Connection[Any]) -> object:
    return conn.execute(query("nothing")).fetchone()
