"""What measures: CPU clocks, rounds that last, and claims of rivals that lose and double nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial

import psycopg
import pytest
from benchmarks import counters, cpu, jobs
from benchmarks.claims import Claims
from benchmarks.cost import Cost
from benchmarks.drain import Drained
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
