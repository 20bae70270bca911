"""Q1 to Q4 by kills, with the whole history: each event has one effect, or is a dead letter, never both or none.

Workers and clients of one group are killed with -9, and their sessions ended.
"""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from psycopg import Connection

from support.queue import Queue, make, publish

ACTOR = Path(__file__).with_name("actor.py")
EVENTS = 3000
SECONDS = 6.0
BLOCK = 4


class _Crew:
    """Workers and clients, of whom any may be killed at any moment; others take their places."""

    def __init__(self, dsn: str, queue: Queue, chance: random.Random) -> None:
        self._argv = [dsn, str(queue.lease), str(queue.block)]
        self._chance = chance
        self._crew: list[tuple[str, subprocess.Popen[bytes]]] = []
        for kind in ("worker", "worker", "client", "client"):
            self._start(kind)

    def _start(self, kind: str) -> None:
        seed = str(self._chance.randrange(1 << 30))
        self._crew.append(
            (kind, subprocess.Popen([sys.executable, str(ACTOR), kind, *self._argv, seed]))
        )

    def wait(self, conn: Connection) -> None:
        """Until both kinds have begun to work, which takes long on a busy machine."""
        give_up = time.monotonic() + 60
        kinds = "select count(distinct split_part(who, '-', 1)) from ledger"
        while conn.execute(kinds).fetchone() != (2,):
            assert time.monotonic() < give_up
            time.sleep(0.05)

    def kill_one(self) -> None:
        kind, process = self._crew.pop(0)
        assert process.poll() is None, "it ended by an error of its own"
        process.kill()
        process.wait(30)
        self._start(kind)

    def stop(self) -> None:
        for _, process in self._crew:
            process.send_signal(signal.SIGTERM)
        for _, process in self._crew:
            assert process.wait(30) in (0, -signal.SIGTERM)  # it may not have begun


def _harm(conn: Connection, crew: _Crew, chance: random.Random, seconds: float) -> None:
    crew.wait(conn)
    end = time.monotonic() + seconds
    published = EVENTS // 2
    while time.monotonic() < end:
        time.sleep(0.3)
        if published < EVENTS:
            publish(conn, "mails", published + 1, published + 100)
            published += 100
        if chance.random() < 0.3:
            crew.kill_one()
        conn.execute(
            "select pg_terminate_backend(pid) from (select pid from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
            " and backend_type = 'client backend' order by random() limit 1) x"
        )
    if published < EVENTS:
        publish(conn, "mails", published + 1, EVENTS)


def _drain(conn: Connection, queue: Queue) -> None:
    """What is left, handled by the test itself, until nothing is in hand or waits."""
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        worked = False
        while True:
            conn.execute("begin")
            taken = queue.take(conn)
            if taken.offsets is None:
                conn.execute("rollback")
                break
            conn.execute(
                "insert into ledger (c_offset, who) select n, 'test'"
                " from generate_series(%s::int, %s::int) n",
                taken.offsets,
            )
            queue.finish(conn, taken)
            worked = True
        while rows := queue.reserve(conn, 4):
            with conn.transaction():
                conn.execute(
                    "insert into ledger (c_offset, who) select n, 'test' from unnest(%s::bigint[]) n",
                    [[row[1] for row in rows]],
                )
                for receipt in {row[0] for row in rows}:
                    queue.call(conn, "acknowledge", receipt)
            worked = True
        left = conn.execute(
            "select (select count(*) from gapless.queue_range where deadline is not null)"
            " + (select count(*) from gapless.dead_letter where state = 'waiting')"
        ).fetchone()
        if not worked and left == (0,):
            queue.sweep(conn)
            return
        time.sleep(0.1)
    pytest.fail("something stays in hand")


def _violations(conn: Connection, queue: Queue) -> list[str]:
    rows = conn.execute(
        """
        select n, coalesce(l.effects, 0), d.first_offset is not null
        from generate_series(1, %s) n
        left join (select c_offset, count(*) as effects from ledger group by 1) l on l.c_offset = n
        left join gapless.dead_letter d on d.first_offset = n and d.state = 'dead'
        where coalesce(l.effects, 0) + (d.first_offset is not null)::int <> 1
        """,
        [EVENTS],
    ).fetchall()
    found = [f"offset {n}: {effects} effects, dead: {dead}" for n, effects, dead in rows]
    if queue.floor(conn) != EVENTS + 1:
        found.append(f"the floor is at {queue.floor(conn)}")
    return found


def _run(dsn: str, conn: Connection, seconds: float) -> list[str]:
    chance = random.Random(19)
    conn.execute("create table ledger (c_offset bigint, who text)")
    queue = make(conn, events=EVENTS // 2, block=BLOCK)
    crew = _Crew(dsn, queue, chance)
    try:
        _harm(conn, crew, chance, seconds)
    finally:
        crew.stop()
    _drain(conn, queue)
    return _violations(conn, queue)


def test_each_event_is_handled_once(dsn: str, conn: Connection) -> None:
    assert _run(dsn, conn, SECONDS) == []
    who = dict(
        conn.execute("select split_part(who, '-', 1), count(*) from ledger group by 1").fetchall()
    )
    assert min(who["worker"], who["client"]) > 20, "both kinds were at work"
