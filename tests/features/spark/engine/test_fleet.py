"""Instances of `pipeline run --all`: killed, overtaken, without a database; each event counts once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import psycopg
import pyarrow.dataset as ds
import pytest
from psycopg import Connection

from chaos.process import children_of
from features.spark.engine.programs import started
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

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

EVENTS = 100
PATIENCE_S = 400.0
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
ENDED_S = 120.0
CHECK = "try_cast(get_json_object(value, '$.n') as bigint) is not null"
TOTALS = "select coalesce(sum(n), 0)::int, coalesce(sum(total), 0)::int from totals"
LETTERS = "select state, count(*)::int from gapless.dead_letter group by 1 order by 1"
IN_COMMIT = """
pg_stat_activity where application_name = 'gapless/spark driver' and state = 'idle in transaction'
"""
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


class Stage:
    """A cluster with a log, and instances of all pipelines, which end with the block."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.dsn = cluster.dsn()
        self.conn = connect(self.dsn, role="test")
        self.file = folder / "pipelines.yml"
        self.file.write_text(DOCUMENT.format(folder=folder, check=CHECK))
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()
        self.conn.close()

    def start(self, failpoints: str = "") -> subprocess.Popen[bytes]:
        command = ("pipeline", "run", "--all", "--file", str(self.file), "--master", "local[1]")
        env = {"GAPLESS_FAILPOINTS": failpoints} if failpoints else {}
        return self._ending.enter_context(
            started("-m", "gapless", *command, "--dsn", self.dsn, **env)
        )

    def has(self, events: int, redriven: int = 0) -> bool:
        """Whether the first events are in both targets, each once."""
        found = self.conn.execute(TOTALS).fetchone()
        sums = (len(good(events)) + redriven // 5, sum(good(events)) + redriven)
        return found == sums and numbers(self.folder) == good(events)

    def standing(self) -> dict[str, PipelineStanding]:
        return {each.name: each for each in list_pipelines(self.conn)}

    def states(self, state: str) -> list[str]:
        return [name for name, each in self.standing().items() if each.state == state]

    def letters(self) -> list[tuple[Any, ...]]:
        return self.conn.execute(LETTERS).fetchall()

    def count(self, what: str) -> int:
        return (self.conn.execute(f"select count(*) from {what}".encode()).fetchone() or (0,))[0]


def test_one_takes_over_from_another_and_stays_up(
    cluster: Cluster, tmp_path: Path, gapless: Callable[..., Any]
) -> None:
    with Stage(cluster, tmp_path) as stage:
        fill(stage.conn, 0)
        second = take_over(stage)
        go_on_when_mended(stage, gapless)
        live_through_a_restart(stage)
        redrive(stage)
        live_without_a_jvm(stage, second)

        family = descendants(second.pid)
        second.terminate()
        assert second.wait(ENDED_S) == 0
        assert until(lambda: not any(map(lives, family)), ENDED_S)
        assert stage.states("stopped") == ["files", "late", "totals"]


def take_over(stage: Stage) -> subprocess.Popen[bytes]:
    """The first is killed inside batches of two pipelines, while the second stands by."""
    first = stage.start("pipeline.applied=stall:900")
    assert until(lambda: stage.count(IN_COMMIT) == 1, PATIENCE_S)
    assert until(lambda: "late" in stage.states("retrying"), PATIENCE_S)
    second = stage.start()
    assert until(lambda: stage.standing()["totals"].standbys == 1, PATIENCE_S)
    family = descendants(first.pid)
    assert len(family) >= 2, "a JVM and its workers"
    assert stage.conn.execute(TOTALS).fetchone() == (0, 0)
    first.kill()
    assert until(lambda: not any(map(lives, family)), ENDED_S), "no JVM is left behind"
    assert until(lambda: stage.has(100), PATIENCE_S)
    found = stage.standing()
    assert (found["totals"].bad, found["files"].bad) == (10, 10)
    assert stage.letters() == [("dead", 10)], "of the other one, bad events are dropped"
    return second


def go_on_when_mended(stage: Stage, gapless: Callable[..., Any]) -> None:
    """One that fails does not stop the others, and is named."""
    assert stage.standing()["late"].state == "retrying"
    told = gapless("doctor", "--json", GAPLESS_DSN=stage.dsn).json["checks"]
    (text,) = (each["text"] for each in told if each["name"] == "pipelines")
    assert text.startswith("late has failed since ")
    assert text.endswith("100 events stay for it: table late does not exist: create it first")
    stage.conn.execute("create table late (key text, value text)")
    assert until(lambda: stage.count("late") == 100, PATIENCE_S)


def live_through_a_restart(stage: Stage) -> None:
    stage.cluster.restart("immediate")
    stage.conn = again(stage.dsn)
    fill(stage.conn, 100)
    assert until(lambda: stage.has(200) and stage.count("late") == 200, PATIENCE_S)
    assert stage.letters() == [("dead", 20)]
    assert until(lambda: stage.states("running") == ["files", "late", "totals"])


def redrive(stage: Stage) -> None:
    """A corrected dead letter is handled once."""
    stage.conn.execute(
        "select gapless.mend_letter(group_id, 'orders', partition_id, first_offset,"
        " array[first_offset], array[null], array[null], array['{\"n\": 5}']),"
        " gapless.redrive_letter(group_id, 'orders', partition_id, first_offset)"
        " from (select * from gapless.dead_letter limit 1) d"
    )
    assert until(lambda: stage.has(200, redriven=5), PATIENCE_S)
    assert stage.letters() == [("dead", 19), ("redriven", 1)]


def live_without_a_jvm(stage: Stage, instance: subprocess.Popen[bytes]) -> None:
    """A JVM that was lost is replaced."""
    jvm, *_ = (each for each in descendants(instance.pid) if "SparkSubmit" in command(each))
    os.kill(jvm, signal.SIGKILL)
    fill(stage.conn, 200)
    assert until(lambda: stage.has(300, redriven=5), PATIENCE_S)


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


def again(dsn: str) -> Connection:
    found: list[Connection] = []

    def tried() -> bool:
        with suppress(psycopg.Error):
            found.append(psycopg.connect(dsn, autocommit=True))
        return bool(found)

    assert until(tried)
    return found[0]
