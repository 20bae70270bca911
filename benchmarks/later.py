"""Scheduled events: how many a second are promoted, how late, and the cost of an idle look."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from psycopg import Connection

from benchmarks.drain import Drained, noop
from benchmarks.figure import Figure, Target, alternate, compared
from benchmarks.fill import make_topic
from benchmarks.queries import query
from benchmarks.server import Setup
from benchmarks.supervised import supervised, wait_for
from benchmarks.turns import called, ms_figure, take_turns
from gapless import handler
from gapless.consume.user.handler import Handler
from gapless.db.connect import connect
from gapless.features.scheduled.later import Promoter
from gapless.log.sequence import create_chunks, sequence

CALLS, TURNS = 10, 100
LOOK_EVERY_S = 0.01  # of the sequencer's time, as gapless.features.scheduled.later does
OURS = "ours"
AT_ONCE = "published at once, in batches of 1000"
NOTHING = "nothing waits"
EMPTY = "a statement that does nothing"
ALONE = "without a look"
LEAD_S = 3.0  # until the first is due, so that all are stored before

idle = handler(topic="outbox", group="later")(noop)
elsewhere = handler(topic="elsewhere", group="later")(noop)


def run(setup: Setup) -> list[Figure]:
    """Measure each case on a database of its own."""
    return [_promoted(setup), *_looks(setup), *_beside(setup), *_late(setup)]


def _promoted(setup: Setup) -> Figure:
    """Promote and sequence a backlog that is due, beside one that is published and sequenced."""
    events = setup.pick(2_000, 20_000, 30_000)
    with setup.database("later") as dsn, connect(dsn, role="bench") as conn:
        make_topic(dsn, "outbox", partitions=8)
        create_chunks(conn)
        results = alternate(
            setup.rounds,
            {
                AT_ONCE: partial(_rate, conn, events, _publish_all),
                "ours": partial(_rate, conn, events, _promote_all),
            },
        )
    return Figure(
        what=f"{events} due at once: promoted and sequenced",
        unit="events/s",
        ours=results["ours"],
        baseline=results[AT_ONCE],
        against=AT_ONCE,
        target=Target("value", at_least=10_000),
    )


def _rate(conn: Connection[Any], events: int, do: Callable[[Connection[Any], int], int]) -> float:
    conn.execute(query("later_clear"))
    if do is _promote_all:
        _fill(conn, events, lead_s=-3600, step_us=1)
    began_s = perf_counter()
    done = do(conn, events)
    took_s = perf_counter() - began_s
    assert done == events, f"{done} of {events}"
    create_chunks(conn)
    return events / took_s


def _promote_all(conn: Connection[Any], events: int) -> int:
    promoter, done = Promoter(), 0
    while done < events and promoter.promote(conn):
        done += sequence(conn)
    return done


def _publish_all(conn: Connection[Any], events: int) -> int:
    done = 0
    for _ in range(0, events, 1000):
        conn.execute(query("later_at_once"), {"events": min(1000, events)})
        done += sequence(conn)
    return done


def _looks(setup: Setup) -> list[Figure]:
    """Look for due events, with many waiting and with none; count the xids that this takes."""
    events = setup.pick(2_000, 200_000, 500_000)
    with (
        setup.database("empty") as empty_dsn,
        connect(empty_dsn, role="bench") as empty,
        setup.database("later") as dsn,
        connect(dsn, role="bench") as conn,
    ):
        _fill(conn, events, lead_s=86_400, step_us=1)
        promote, of_nothing = Promoter().promote, Promoter().promote
        sides = {
            EMPTY: called(conn, _nothing),
            NOTHING: called(empty, of_nothing),
            OURS: called(conn, promote),
        }
        turns = take_turns(dsn, sides, turn_events=CALLS, turns_max=TURNS)
        before = _xid(conn)
        for _ in range(CALLS * TURNS):
            promote(conn)
        xids = _xid(conn) - before
    results, what = turns.drained(), f"a look with {events} waiting and nothing due"
    figures = [
        *_timed(what, results, EMPTY, cpu=Target("value", at_most=0.2)),
        *_timed(what, results, NOTHING),
    ]
    seen = Figure(
        what=f"{CALLS * TURNS} such looks: xids",
        unit="xids",
        ours=(float(xids),),
        target=Target("value", at_most=0),
    )
    return [*figures, seen]


def _timed(
    what: str,
    results: dict[str, tuple[Drained, ...]],
    against: str,
    *,
    cpu: Target | None = None,
    in_all: Target | None = None,
) -> list[Figure]:
    """Return the CPU time of a call in its server process, and its whole duration."""
    sides = results[OURS], results[against], against
    figure = ms_figure(f"{what}: until its client has the answer", *sides, in_all)
    of_server = compared(f"{what}: CPU of the server", "ms", _server_ms, sides, cpu)
    return [of_server, figure] if of_server.ours else [figure]


def _server_ms(done: Drained) -> float | None:
    return None if done.cost.server_us is None else done.cost.server_us / 1000


def _nothing(conn: Connection[Any]) -> None:
    conn.execute(query("nothing"), prepare=True).fetchone()


def _xid(conn: Connection[Any]) -> int:
    row = conn.execute(query("later_next_xid")).fetchone()
    assert row is not None
    return int(row[0])


def _beside(setup: Setup) -> list[Figure]:
    """Compare a busy sequencer of a log without scheduled events, with its looks and without."""
    with setup.database("later") as dsn, connect(dsn, role="bench") as conn:
        make_topic(dsn, "outbox", partitions=8)
        create_chunks(conn)
        sides = {
            ALONE: called(conn, _sequenced),
            OURS: called(conn, _looking()),
        }
        turns = take_turns(dsn, sides, turns_max=setup.pick(50, 500, 1_600))
    what, most = "nothing for later: publish 10 and sequence them", Target("ratio", at_most=1.03)
    return [*_timed(what, turns.drained(), ALONE, in_all=most), *turns.noise(what, OURS)]


def _sequenced(conn: Connection[Any]) -> None:
    conn.execute(query("later_at_once"), {"events": 10})
    sequence(conn)


def _looking() -> Callable[[Connection[Any]], None]:
    """Do the same, and look as often as a sequencer does that makes only these calls."""
    promoter, since_s = Promoter(), 0.0

    def call(conn: Connection[Any]) -> None:
        nonlocal since_s
        began_s = perf_counter()
        _sequenced(conn)
        if since_s >= LOOK_EVERY_S:
            promoter.promote(conn)
            since_s = 0.0
        since_s += perf_counter() - began_s

    return call


def _late(setup: Setup) -> list[Figure]:
    """Measure how late due events get their offsets from a real sequencer.

    Workers that handle them take the CPU of a small machine; so it is measured with and without.
    """
    return [
        figure
        for app, whose in ((elsewhere, "nobody handles them"), (idle, "eight workers handle them"))
        for figure in _late_beside(setup, app, whose)
    ]


def _late_beside(setup: Setup, app: Handler, whose: str) -> list[Figure]:
    seconds = setup.pick(1, 6, 6)
    per_s = setup.pick(100, 1000, 1000)
    with setup.database("later") as dsn, connect(dsn, role="bench") as conn:
        make_topic(dsn, "outbox", partitions=8)
        with supervised(dsn, app):
            _fill(conn, seconds * per_s, lead_s=LEAD_S, step_us=1_000_000 // per_s)
            wait_for(dsn, "later_left", lambda left: not left)
            wait_for(dsn, "later_unsequenced", lambda pending: not pending)
        row = conn.execute(query("later_lateness")).fetchone()
        assert row is not None
    return [
        Figure(
            what=f"{per_s} due a second, {whose}: late, {name}",
            unit="ms",
            ours=(value,),
            target=target if app is elsewhere else None,
        )
        for name, value, target in (
            ("median", row[0], None),
            ("p99", row[1], Target("value", at_most=20)),
            ("worst", row[2], None),
        )
    ]


def _fill(conn: Connection[Any], events: int, *, lead_s: float, step_us: int) -> None:
    """Store waiting events, due one after the other, each of 300 bytes, ten to a transaction."""
    conn.execute(query("later_fill"), {"events": events, "lead_s": lead_s, "step_us": step_us})
    conn.execute(query("later_analyse"))
