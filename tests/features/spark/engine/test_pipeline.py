"""Pipelines: every event once in every kind of target, whatever point a run is cut off at."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import Connection

from gapless import failpoints
from gapless.errors import GaplessError
from gapless.features.spark.pipeline.document import load_pipelines
from gapless.features.spark.pipeline.position import list_pipelines
from gapless.features.spark.pipeline.run import run_pipeline
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import Topic, ensure_topic
from support.long import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 100
_ALWAYS = ("pipeline.written", "pipeline.applied", "pipeline.done")
POINTS = {
    "archive": ("pipeline.staged", "pipeline.moved", *_ALWAYS),
    "lake": ("pipeline.staged", "pipeline.looked", *_ALWAYS),
    "totals": _ALWAYS,
    "again": _ALWAYS,
}
# Each point and each target, not each with each: a program and its JVM take a quarter of a minute to start. That a
# run goes on behind each point of each target is test_cut_off_anywhere's.
KILLED = {
    "archive": ("pipeline.staged", "pipeline.moved"),  # moved: between two files
    "lake": ("pipeline.looked",),
    "totals": ("pipeline.written", "pipeline.done"),
    "again": ("pipeline.applied",),
}
LETTERS = """
select d.state, d.attempts, count(*) from gapless.dead_letter d group by 1, 2 order by 1, 2
"""
REDRIVE = """
select gapless.redrive_letter(d.group_id, t.name, d.partition_id, d.first_offset)
from gapless.dead_letter d join gapless.topic t using (topic_id)
"""
DOCUMENT = """
pipelines:
  archive:
    from: outbox
    batchEvents: 60
    sql: select *, date(timestamp) as day from events
    to:
      parquet: {folder}/archive
      partitionBy: day
  lake:
    from: outbox
    batchEvents: 60
    sql: select *, date(timestamp) as day from events
    to:
      delta: {folder}/lake
      partitionBy: day
  totals:
    from: outbox
    batchEvents: 60
    columns: [key, value]
    transform: pipeline_transforms:totals
    to:
      table: totals
      key: key
      add: [n, total]
  some:
    from: outbox
    batchEvents: 60
    columns: [key, value]
    where: $.n >= $low && $.n < 70
    params: {{low: 50}}
    transform: pipeline_transforms:totals
    to:
      table: totals
      key: key
      add: [n, total]
  picked:
    from: outbox
    batchEvents: 60
    columns: [key, value]
    check: cast(get_json_object(value, '$.n') as int) % 10 <> 3
    onBadRow: dead-letter
    transform: pipeline_transforms:totals
    to:
      table: totals
      key: key
      add: [n, total]
  filed:
    from: outbox
    batchEvents: 60
    check: cast(get_json_object(value, '$.n') as int) % 10 <> 3
    onBadRow: dead-letter
    to:
      parquet: {folder}/archive
  strict:
    from: outbox
    batchEvents: 60
    onBadRow: dead-letter
    sql: select key, cast(get_json_object(value, '$.n') as bigint) as n from events
    to: {{table: strict}}
  numbers:
    from: outbox
    batchEvents: 60
    onBadRow: dead-letter
    sql: select *, cast(get_json_object(value, '$.n') as bigint) as n from events
    to: {{parquet: {folder}/archive}}
  again:
    from: outbox
    batchEvents: 60
    sql: select key, value, transaction_id from events
    to:
      topic: again
"""


class World:
    """A log of 100 events, the pipelines over it, and what must be in their targets."""

    def __init__(self, conn: Connection, dsn: str, folder: Path) -> None:
        self._conn = conn
        self._dsn = dsn
        self._folder = folder
        self.file = folder / "pipelines.yml"
        self.file.write_text(DOCUMENT.format(folder=folder))
        self.pipelines = load_pipelines(self.file)
        conn.execute("create table totals (key text primary key, n bigint, total bigint)")
        ensure_topic(conn, "again", partitions=2)
        self.publish(0)

    def publish(self, first: int) -> None:
        for start in range(first, first + EVENTS, 10):
            batch = [NewEvent(payload={"n": n}, key=f"k{n % 7}") for n in range(start, start + 10)]
            publish(self._conn, "outbox", batch)

    def run(self, name: str) -> int:
        return run_pipeline(self.pipelines[name], self._dsn, master="local[2]", tell=lambda _: None)

    def numbers(self, name: str) -> list[int]:
        """What has arrived, by the numbers of the events (of totals: their count and sum)."""
        if name in ("archive", "filed"):
            return sorted(json.loads(row["value"])["n"] for row in self.rows())
        if name == "lake":
            return sorted(json.loads(row["value"])["n"] for row in self.delta_rows())
        if name == "again":
            found = self._conn.execute(
                "select (payload ->> 'n')::int from gapless.outbox_message_t"
                " join gapless.topic using (topic_id) where name = 'again' order by 1"
            ).fetchall()
            return [n for (n,) in found]
        return list(
            self._conn.execute(
                "select coalesce(sum(n), 0), coalesce(sum(total), 0) from totals"
            ).fetchall()[0]
        )

    def rows(self) -> list[dict[str, Any]]:
        """The archive as any reader of Parquet sees it, Spark or not."""
        import pyarrow.dataset as ds

        folder = self._folder / "archive"
        if not folder.exists():
            return []
        rows: list[dict[str, Any]] = ds.dataset(folder, partitioning="hive").to_table().to_pylist()
        return rows

    def delta_rows(self) -> list[dict[str, Any]]:
        """The Delta table as delta-rs sees it."""
        from deltalake import DeltaTable

        folder = str(self._folder / "lake")
        if not DeltaTable.is_deltatable(folder):
            return []
        rows: list[dict[str, Any]] = DeltaTable(folder).to_pyarrow_table().to_pylist()
        return rows

    @staticmethod
    def all_of(name: str, events: int) -> list[int]:
        numbers = list(range(events))
        return [events, sum(numbers)] if name == "totals" else numbers


@pytest.fixture
def world(spark: SparkSession, conn: Connection, dsn: str, topic: Topic, tmp_path: Path) -> World:
    return World(conn, dsn, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", long_but(POINTS, "totals"))
def test_cut_off_anywhere_every_event_arrives_once(
    world: World, conn: Connection, name: str
) -> None:
    for point in POINTS[name]:
        failpoints.arm({point: "raise"})
        with pytest.raises(GaplessError, match=point):
            world.run(name)
        seen = world.numbers(name)
        if name == "totals":
            assert seen[0] <= EVENTS, f"doubled after {point}"
        else:
            assert len(seen) == len(set(seen)), f"doubled after {point}"
    failpoints.arm({})
    standing = {each.name: each for each in list_pipelines(conn)}[name]
    assert "failpoint" in (standing.error or "")
    world.run(name)
    assert world.numbers(name) == world.all_of(name, EVENTS)
    world.publish(EVENTS)
    assert world.run(name) == EVENTS
    assert world.numbers(name) == world.all_of(name, 2 * EVENTS)
    standing = {each.name: each for each in list_pipelines(conn)}[name]
    assert (standing.events, standing.lag, standing.error) == (2 * EVENTS, 0, None)


BAD = {"picked": POINTS["totals"], "filed": POINTS["archive"]}


@pytest.mark.long
@pytest.mark.parametrize("name", BAD)
def test_bad_events_are_set_aside_once_wherever_a_run_is_cut_off(
    world: World, conn: Connection, name: str
) -> None:
    for point in BAD[name]:
        failpoints.arm({point: "raise"})
        with pytest.raises(GaplessError, match=point):
            world.run(name)
    failpoints.arm({})
    world.run(name)
    kept = [n for n in range(EVENTS) if n % 10 != 3]
    arrived = [len(kept), sum(kept)] if name == "picked" else kept
    assert world.numbers(name) == arrived
    assert conn.execute(LETTERS).fetchall() == [("dead", 1, 10)]
    assert {each.name: each.bad for each in list_pipelines(conn)}[name] == 10

    conn.execute(REDRIVE)
    world.run(name)
    assert world.numbers(name) == arrived
    assert conn.execute(LETTERS).fetchall() == [("dead", 2, 10)], "the check refuses them again"

    conn.execute(REDRIVE)
    world.pipelines[name] = replace(world.pipelines[name], check=None, on_bad_row="fail")
    world.run(name)
    assert conn.execute(LETTERS).fetchall() == [("redriven", 2, 10)]
    every = list(range(EVENTS))
    assert world.numbers(name) == ([EVENTS, sum(every)] if name == "picked" else every)


@pytest.mark.long
def test_a_check_has_one_verdict_of_each_event(world: World, conn: Connection) -> None:
    """Also one that chance or the clock decides: each event arrives, or is a dead letter."""
    by_chance = replace(world.pipelines["picked"], check="rand() < 0.5")
    world.pipelines["picked"] = by_chance
    assert world.run("picked") == EVENTS
    ((_, _, aside),) = conn.execute(LETTERS).fetchall()
    assert world.numbers("picked")[0] + aside == EVENTS


REFUSED = {
    "strict": [
        "cannot be cast",
        'violates check constraint "strict_n_check"',
        'null value in column "key"',
        "integer out of range|out of range for type integer",
    ],
    "numbers": ["cannot be cast"],
}


@pytest.mark.long
@pytest.mark.parametrize("name", REFUSED)
def test_events_that_the_target_refuses_are_set_aside(
    world: World, conn: Connection, name: str
) -> None:
    """A cast that fails, and values that a column refuses; the rest of the batch arrives."""
    conn.execute("create table strict (key text not null, n int check (n <> 55))")
    more = [("x", "k"), (5, None), (5_000_000_000, "k")]
    publish(conn, "outbox", [NewEvent(payload={"n": n}, key=key) for n, key in more])
    assert world.run(name) == EVENTS + 3
    numbers = sorted([*range(EVENTS), 5, 5_000_000_000])
    if name == "strict":
        arrived = [n for (n,) in conn.execute("select n from strict order by 1")]
        numbers = [n for n in range(EVENTS) if n != 55]
    else:
        arrived = sorted(row["n"] for row in world.rows())
    assert arrived == numbers
    reasons = [why for (why,) in conn.execute("select reason from gapless.dead_letter")]
    for said in REFUSED[name]:
        assert [why for why in reasons if re.search(said, why)], (said, reasons)
    assert len(reasons) == len(REFUSED[name])
    assert {each.name: each.bad for each in list_pipelines(conn)}[name] == len(reasons)


@pytest.mark.long
def test_a_run_that_was_overtaken_leaves_the_files_of_the_next(
    world: World, tmp_path: Path
) -> None:
    """It was paused behind its commit, and another has staged the next batch when it sweeps."""
    later = tmp_path / "archive_staging/archive/later/part.parquet"

    def stage(_: str) -> None:
        failpoints.arm({})
        later.parent.mkdir(parents=True)
        later.touch()

    failpoints.arm({"pipeline.done": stage})
    world.pipelines["archive"] = replace(world.pipelines["archive"], batch_events=EVENTS)
    world.run("archive")
    assert [path.name for path in later.parent.parent.iterdir()] == ["later"]
    assert later.exists()
    world.run("archive")
    assert not later.parent.exists(), "a run that begins removes it"


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", list(KILLED))
def test_killed_for_real_at_every_point(world: World, dsn: str, name: str) -> None:
    """The process that drives a run is killed; its JVM ends with it, wherever that is."""
    for point in KILLED[name]:
        done = _run_killed(world, dsn, name, point)
        assert done.returncode == -signal.SIGKILL, done.stderr
        seen = world.numbers(name)
        assert (seen[0] <= EVENTS) if name == "totals" else (len(seen) == len(set(seen)))
    world.run(name)
    assert world.numbers(name) == world.all_of(name, EVENTS)


def _run_killed(world: World, dsn: str, name: str, point: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "gapless", "pipeline", "run", name, "--once"),
            *("--file", str(world.file), "--master", "local[2]", "--dsn", dsn),
        ],
        env={
            **os.environ,
            "GAPLESS_FAILPOINTS": f"{point}=kill",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


@pytest.mark.long
def test_only_what_its_where_keeps_and_its_position_passes_the_rest(
    world: World, conn: Connection
) -> None:
    assert world.run("some") == EVENTS
    assert world.numbers("some") == [20, sum(range(50, 70))]
    assert {each.name: each.lag for each in list_pipelines(conn)}["some"] == 0


@pytest.mark.long
def test_a_file_of_another_database_does_not_pass_for_ours(world: World, conn: Connection) -> None:
    """Restored to an earlier state, a database has the numbers of batches before it again."""
    world.run("archive")
    conn.execute("update gapless.pipeline set batch = 0")
    world.publish(EVENTS)
    with pytest.raises(GaplessError, match="was the database restored"):
        world.run("archive")
    assert world.numbers("archive") == world.all_of("archive", EVENTS)


@pytest.mark.long
def test_rows_that_a_lost_attempt_sent_are_not_taken(world: World, conn: Connection) -> None:
    """Spark takes one result of each task; what its other attempts have staged stays behind."""

    def send(_: str) -> None:
        (stage,) = conn.execute(
            "select format('%I.%I', schemaname, tablename) from pg_tables"
            " where tablename like 'gapless\\_stage\\_%'"
        ).fetchone() or ("",)
        conn.execute(f"insert into {stage} values (gen_random_uuid(), 'lost', 1, 1)")

    failpoints.arm({"pipeline.written": send})
    assert world.run("totals") == EVENTS
    assert world.numbers("totals") == world.all_of("totals", EVENTS)
