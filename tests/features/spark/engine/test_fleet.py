"""Instances of `pipeline run --all`: killed, overtaken, without a database; each event counts once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.dataset as ds
import pytest
from psycopg import Connection

from chaos.process import children_of
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.features.server.postgres.cluster import Cluster
from gapless.features.server.server import throwaway_cluster
from gapless.features.spark.pipeline.position import PipelineStanding, list_pipelines
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks
from gapless.log.topics import ensure_topic
from support.servers import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

EVENTS = 100
PATIENCE_S = 180.0
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
ENDED_S = 60.0
CHECK = "try_cast(get_json_object(value, '$.n') as bigint) is not null"
DOCUMENT = """
conf:
  spark.driver.memory: 600m
  spark.sql.shuffle.partitions: 2
pipelines:
  totals:
    from: orders
    batchEvents: 60
    columns: [key, value]
    check: {check}
    onBadRow: dead-letter
    transform: pipeline_transforms:totals
    to: {{table: totals, key: key, add: [n, total]}}
  files:
    from: orders
    batchEvents: 60
    check: {check}
    onBadRow: drop
    to: {{parquet: {folder}/files}}
  late:
    from: orders
    sql: select key, value from events
    to: {{table: late}}
"""


@pytest.fixture(autouse=True)
def no_process_left() -> None:
    """Not here: a server that was restarted is a new child of ours."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server that survives a crash, with a log, and a table for the pipeline that has one."""
    with throwaway_cluster(DURABLE) as made:
        with connect(made.dsn(), role="test") as conn:
            migrate(conn)
            create_chunks(conn)
            ensure_topic(conn, "orders", partitions=2)
            conn.execute("create table totals (key text primary key, n bigint, total bigint)")
        yield made


def fill(conn: Connection, first: int) -> None:
    """Publish 100 events, of which every tenth has no number."""
    for start in range(first, first + EVENTS, 10):
        some = range(start, start + 10)
        publish(conn, "orders", [NewEvent(payload={"n": number(n)}, key=f"k{n % 7}") for n in some])


def number(n: int) -> int | str:
    return "x" if n % 10 == 3 else n


def good(events: int) -> list[int]:
    return [n for n in range(events) if number(n) == n]


def test_one_takes_over_from_another_and_stays_up(
    cluster: Cluster, tmp_path: Path, gapless: Callable[..., Any]
) -> None:
    file = tmp_path / "pipelines.yml"
    file.write_text(DOCUMENT.format(folder=tmp_path, check=CHECK))
    dsn = cluster.dsn()
    with ExitStack() as ending:
        conn = ending.enter_context(connect(dsn, role="test"))
        fill(conn, 0)

        # The first stops inside the batches of two, and the second stands by.
        first = ending.enter_context(started(file, dsn, "pipeline.applied=stall:900"))
        assert until(lambda: "late" in states(conn, "retrying"), PATIENCE_S)
        assert until(lambda: set(states(conn, "running")) == {"files", "totals"}, PATIENCE_S)
        second = ending.enter_context(started(file, dsn))
        assert until(lambda: standing(conn)["totals"].standbys == 1, PATIENCE_S)
        family = descendants(first.pid)
        assert len(family) >= 2, "a JVM and its workers"
        assert totals(conn) == (0, 0)
        first.kill()
        assert until(lambda: not any(map(lives, family)), ENDED_S), "no JVM is left behind"

        assert until(lambda: totals(conn) == (90, sum(good(100))), PATIENCE_S)
        assert until(lambda: numbers(tmp_path) == good(100), PATIENCE_S)
        found = standing(conn)
        assert (found["totals"].bad, found["files"].bad) == (10, 10)
        assert letters(conn) == [("dead", 10)], "one is dropped, and no dead letter"

        # One that stands still is named, and goes on by itself once that is mended.
        assert found["late"].state == "retrying"
        (told,) = (
            each["text"]
            for each in gapless("doctor", "--json", dsn=dsn).json["checks"]
            if each["name"] == "pipelines" and "late" in each["text"]
        )
        assert "table late does not exist: create it first" in told
        conn.execute("create table late (key text, value json)")
        conn.execute("create unique index on late (md5(value::text)) where value ->> 'n' <> 'x'")
        assert until(lambda: count(conn, "late") == 100, PATIENCE_S)

        cluster.restart("immediate")
        conn = ending.enter_context(_again(dsn))
        fill(conn, 100)
        assert until(lambda: totals(conn) == (180, sum(good(200))), PATIENCE_S)
        assert until(lambda: numbers(tmp_path) == good(200), PATIENCE_S)
        assert until(lambda: count(conn, "late") == 200, PATIENCE_S)
        assert letters(conn) == [("dead", 20)]

        # A corrected dead letter is handled once.
        conn.execute(
            "select gapless.mend_letter(group_id, 'orders', partition_id, first_offset,"
            " array[first_offset], array[null], array[null], array['{\"n\": 5}']),"
            " gapless.redrive_letter(group_id, 'orders', partition_id, first_offset)"
            " from (select * from gapless.dead_letter limit 1) d"
        )
        assert until(lambda: totals(conn) == (181, sum(good(200)) + 5), PATIENCE_S)
        assert letters(conn) == [("dead", 19), ("redriven", 1)]
        assert states(conn, "running") == ["files", "late", "totals"]

        # A lost JVM is replaced.
        jvm, *_ = (each for each in descendants(second.pid) if "SparkSubmit" in command(each))
        os.kill(jvm, signal.SIGKILL)
        fill(conn, 200)
        assert until(lambda: totals(conn) == (271, sum(good(300)) + 5), PATIENCE_S)
        assert until(lambda: numbers(tmp_path) == good(300), PATIENCE_S)

        family = descendants(second.pid)
        second.terminate()
        assert second.wait(ENDED_S) == 0
        assert until(lambda: not any(map(lives, family)), ENDED_S)
        assert states(conn, "stopped") == ["files", "late", "totals"]


@contextmanager
def started(file: Path, dsn: str, failpoints: str = "") -> Iterator[subprocess.Popen[bytes]]:
    command = ("pipeline", "run", "--all", "--file", str(file), "--master", "local[1]")
    process = subprocess.Popen(
        [sys.executable, "-m", "gapless", *command, "--dsn", dsn],
        env={
            **os.environ,
            "GAPLESS_FAILPOINTS": failpoints,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def standing(conn: Connection) -> dict[str, PipelineStanding]:
    return {each.name: each for each in list_pipelines(conn)}


def states(conn: Connection, state: str) -> list[str]:
    return [name for name, each in standing(conn).items() if each.state == state]


def totals(conn: Connection) -> tuple[int, ...]:
    sums = "select coalesce(sum(n), 0)::int, coalesce(sum(total), 0)::int from totals"
    return conn.execute(sums).fetchone() or ()


def count(conn: Connection, table: str) -> int:
    return (conn.execute(f"select count(*) from {table}".encode()).fetchone() or (0,))[0]


def letters(conn: Connection) -> list[tuple[Any, ...]]:
    found = "select state, count(*)::int from gapless.dead_letter group by 1 order by 1"
    return conn.execute(found).fetchall()


def numbers(folder: Path) -> list[int]:
    if not (folder / "files").exists():
        return []
    rows = ds.dataset(folder / "files").to_table(columns=["value"]).to_pylist()
    return sorted(json.loads(row["value"])["n"] for row in rows)


def descendants(pid: int) -> list[int]:
    return [each for child in children_of(pid) for each in (child, *descendants(child))]


def lives(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def _again(dsn: str) -> Connection:
    found: list[Connection] = []

    def tried() -> bool:
        with suppress(psycopg.Error):
            found.append(psycopg.connect(dsn, autocommit=True))
        return bool(found)

    assert until(tried)
    return found[0]
