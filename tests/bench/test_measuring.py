"""What measures: CPU clocks, rounds that last, and claims of rivals that lose and double nothing."""

import gc
import os
import subprocess
import sys
from functools import partial
from statistics import median
from time import perf_counter, process_time

import psycopg
import pytest
from benchmarks import counters, cpu, jobs, turns
from benchmarks.claims import Claims
from benchmarks.cost import Cost
from benchmarks.drain import Drained, drained_figures
from benchmarks.figure import ITSELF
from benchmarks.peers import BATCH, Lasting
from benchmarks.queries import baseline, query
from psycopg import sql

_BURN = "import time\nwhile time.process_time() < {}: pass\nprint(flush=True)\ninput()"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="CPU clocks of others")
def test_the_cpu_of_another_is_finer_than_a_tick() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _BURN.format(0.05)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        used_s = cpu.own_s(child.pid)
        assert used_s >= 0.05
        assert round(used_s * 1000) != used_s * 1000  # no ticks
        before_s = cpu._own_ended_s(os.getpid())
        child.communicate(b"\n")
    assert cpu._own_ended_s(os.getpid()) - before_s >= 0.05


def test_a_round_lasts_as_long_as_it_must() -> None:
    """At 1 000 a second it takes 3 000 and a bit; what was too short is not counted."""
    asked: list[int] = []

    def measure(events: int) -> Drained:
        asked.append(events)
        return Drained(1000.0, Cost(None, 0.0))

    lasting = Lasting(3.0, 100)
    lasting.round(measure)
    assert [events >= 3000 for events in asked] == [False] * (len(asked) - 1) + [True]
    assert lasting.events == asked[-1] < 4000
    assert lasting.events % BATCH == 0
    lasting.round(measure)
    assert asked[-1] == asked[-2]


@pytest.mark.long
def test_a_claim_commits_with_the_next_one(dsn: str) -> None:
    """A worker that dies between two claims has handled nothing of the first."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(baseline("queue"))
        fill = sql.SQL(query("queue_fill").decode())
        table = sql.Identifier("baseline", "job_deleted")
        conn.execute(fill.format(table=table), {"events": 250, "payload_bytes": 300})

        def left() -> int:
            found = sql.SQL("select count(*) from {}").format(table)
            return int(conn.execute(found).fetchall()[0][0])

        dies = psycopg.connect(dsn, autocommit=True)
        claims = Claims(dies, jobs._on("queue_delete_fast", jobs.HANDLED), is_decoded=False)
        assert len(claims.next({"events": 100})) == 100
        assert left() == 250
        assert len(claims.next({"events": 100})) == 100
        assert left() == 150
        dies.close()
        with psycopg.connect(dsn, autocommit=True) as worker:
            taken = [*jobs._handled(worker, is_decoded=True)]
        assert (taken, left()) == ([100, 50], 0)


@pytest.mark.parametrize("is_decoded", [True, False])
def test_a_payload_is_decoded_or_bytes(dsn: str, is_decoded: bool) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for kind in ("json", "jsonb"):
            cursor = Claims.cursor(conn, is_decoded=is_decoded)
            (found,) = cursor.execute(f"select '{{\"a\": 1}}'::{kind}".encode()).fetchall()
            assert found == (({"a": 1},) if is_decoded else (b'{"a": 1}',))


def test_a_counter_poller_looks_before_it_locks(dsn: str) -> None:
    """It gets each event once, in order; when there is nothing it takes no transaction id."""
    counters.create(dsn, 1)
    counters.join(dsn, ["g"])
    with psycopg.connect(dsn, autocommit=True) as conn:
        counters.write(conn, 0, [b"%d" % n for n in range(250)])
        claims = Claims(conn, counters.claim_statement(0), is_decoded=False)
        params = {"group_id": "g", "partition_id": 0, "events": 100}
        seen = [*iter(partial(claims.next, params), [])]
        assert [len(rows) for rows in seen] == [100, 100, 50]
        assert [payload for rows in seen for _, payload, _ in rows] == [
            b"%d" % n for n in range(250)
        ]
        horizon = "select pg_snapshot_xmax(pg_current_snapshot())"
        before = conn.execute(horizon).fetchall()
        assert claims.next(params) == []
        assert conn.execute(horizon).fetchall() == before


def _side(conn: psycopg.Connection, events: int, work_s: float) -> tuple[turns.Side, list[float]]:
    """Return a side that burns so much CPU a turn, and when it did."""
    left, began = [events], []

    def turn() -> int:
        began.append(perf_counter())
        until_s = process_time() + work_s
        while process_time() < until_s:
            pass
        left[0] -= 1
        return int(left[0] >= 0)

    return turns.Side(conn, turn), began


def test_sides_take_turns_in_both_orders_and_cost_what_they_take(dsn: str) -> None:
    warm = 9
    with psycopg.connect(dsn) as conn:
        (slow, slows), (fast, fasts) = (
            _side(conn, turns.COLD_CALLS + events, work_s)
            for events, work_s in ((warm, 0.004), (3 * warm, 0.001))
        )
        taken = turns.take_turns(dsn, {"slow": slow, "fast": fast})
    assert [len(each) for each in taken.values()] == [warm] * 2  # none without its neighbour
    firsts = [a < b for a, b in zip(slows, fasts, strict=True)]
    assert [*map(bool, firsts)] == [
        number % 2 == 0 for number in range(turns.COLD_CALLS + warm + 1)
    ]
    results = taken.drained()
    figure = drained_figures("x", results["slow"], results["fast"], "fast")[1]
    if figure.ours:  # CPU clocks of others
        assert 2 < median(figure.ratios) < 6
        rate, cpu = taken.noise("x", "slow")
        assert (len(rate.ratios), cpu.against) == (4, ITSELF)
        assert 0.5 < median(cpu.ratios) < 2


def test_thousands_of_turns_are_kept_as_sums_of_neighbours() -> None:
    turn = turns.Turn(calls=1, events=10, took_s=0.5, client_s=0.1, server_s=0.2, wal_bytes=30)
    (results,) = turns.Turns(one=[turn] * 1000).drained().values()
    assert len(results) == turns.PAIRS_MAX
    assert results[0].per_s == pytest.approx(20)
    assert results[0].cost.cpu_us == pytest.approx(30_000)
    assert results[0].cost.wal_bytes == 3


def test_nobody_pays_for_looking_at_what_was_there_before(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        side = turns.called(conn, lambda _: frozen.append(gc.get_freeze_count()))
        frozen: list[int] = []
        turns.take_turns(dsn, {"a": side}, turns_max=1)
    assert min(frozen) > 1_000
    assert gc.get_freeze_count() == 0


def test_a_turn_lasts_until_it_has_its_events(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        side, began = _side(conn, 40, 0)
        (taken,) = turns.take_turns(dsn, {"a": side}, turn_events=5, turns_max=3).values()
    assert [each.events for each in taken] == [5, 5, 5]
    cold = 10  # calls: as many turns as it takes
    assert len(began) == cold + 15


@pytest.mark.parametrize(("events", "counted"), [(33, 9), (9, 1), (4, 1), (2, 0)])
def test_no_side_is_measured_cold_or_in_a_turn_cut_short(
    dsn: str, events: int, counted: int
) -> None:
    """Three calls a turn, so two turns are cold; the last counts where there is nothing else."""
    with psycopg.connect(dsn) as conn:
        side, _ = _side(conn, events, 0)
        (taken,) = turns.take_turns(dsn, {"a": side}, turn_events=3).values()
    assert [each.events for each in taken] == [3] * counted
