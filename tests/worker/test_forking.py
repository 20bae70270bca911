"""A process that a handler forks is no worker: it handles nothing, ends no session, and dies when told to (I6, I7)."""

import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from psycopg import Connection

import gapless
from gapless import testing
from support.commands import environment
from support.fleet import until
from worker import forking

GROUPS = ["once", "batch", "queue", "outside", "queue-outside", "in-loop", "in-loop-outside"]
MARK = "GAPLESS_TEST_FORKING"
SAID = "a handler came back in process "
COME_BACK = len(forking.COME_BACK)
TWICE = "select who, n from done group by 1, 2 having count(*) > 1"
IN_THIS_PROCESS = """
import os, psycopg
from gapless import ops, settings, testing
from worker import forking
dsn = os.environ["GAPLESS_DSN"]
for each in forking.HANDLERS:
    print(testing.drain(dsn, each))
with psycopg.connect(dsn, autocommit=True) as conn:
    terms = ops.replay_terms(forking.once, settings.Settings())
    print(ops.try_replay(conn, ops.ReplayRange(topic="t"), forking.once, terms))
"""


def publish(dsn: str, conn: Connection, deeds: int) -> None:
    testing.install(dsn, topics={"t": 1, "reports": 1})
    conn.execute("create table done (who text, n float8)")
    for number in range(deeds):
        gapless.publish(conn, "t", number)


def living(mark: str) -> list[str]:
    """The titles of the processes that have this mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_a_child_that_comes_back_in_a_program_of_its_own_is_ended(
    dsn: str, conn: Connection
) -> None:
    deeds = COME_BACK + len(forking.ON_IT)
    publish(dsn, conn, deeds)
    ran = subprocess.run(
        [sys.executable, "-c", IN_THIS_PROCESS],
        check=False,
        env=environment(GAPLESS_DSN=dsn),
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stdout.splitlines() == [
        *[f"Drained(events={deeds}, units={deeds}, dead=0)"] * len(GROUPS),
        f"ReplayTrial(events={deeds}, handled={deeds}, skipped=0, failed=0, failures=[])",
    ], ran.stderr
    assert conn.execute(TWICE).fetchall() == []
    assert ran.stderr.count(f"gapless: {SAID}") >= (len(GROUPS) + 1) * (COME_BACK - 1)


@pytest.mark.long
def test_nor_is_one_of_a_worker(dsn: str, conn: Connection, tmp_path: Path) -> None:
    publish(dsn, conn, len(forking.DEEDS))
    log, mark = tmp_path / "log", uuid4().hex
    with log.open("wb") as output:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "gapless", "run", forking.__file__],
            env=environment(GAPLESS_DSN=dsn, **{MARK: mark}),
            stdout=output,
            stderr=output,
        )
    try:
        until(
            lambda: (
                conn.execute(
                    "select count(distinct who) = %s and count(distinct (who, n)) > %s from done",
                    [len(GROUPS) + 1, len(GROUPS) * len(forking.DEEDS)],
                ).fetchone()
                == (True,)
            ),
            "all is handled, and the schedule has called",
            within=log.read_text,
        )
        supervisor.terminate()
        assert supervisor.wait(60) == 0
    finally:
        supervisor.kill()
    assert conn.execute(TWICE).fetchall() == []
    assert conn.execute("select exception from gapless.dead_letter_queue").fetchall() == []
    assert "worker" not in log.read_text(), "none has died"
    assert log.read_text().count(SAID) >= len(GROUPS) * COME_BACK
    until(lambda: not living(mark), "no process is left", within=lambda: living(mark))
