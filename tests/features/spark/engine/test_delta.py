"""A Delta table as a target: what its log says is there once, whatever else lies in its folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import Connection

from gapless import failpoints
from gapless.errors import GaplessError, UsageError
from gapless.features.spark.archive import read_archived
from gapless.features.spark.pipeline.document import load_pipelines
from gapless.features.spark.pipeline.run import run_pipeline
from gapless.features.spark.pipeline.verify import verify
from gapless.features.spark.ranges import Range
from gapless.features.spark.segments import ReadRequest
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import Topic

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

EVENTS = 40
PARTITIONED = "to: {delta: lake, partitionBy: kind}"
KINDS = "sql: select *, key as kind from events"


@pytest.fixture
def lake(spark: SparkSession, conn: Connection, dsn: str, topic: Topic, tmp_path: Path) -> Lake:
    return Lake(conn, dsn, tmp_path)


class Lake:
    """A log of 40 events, and pipelines of it into the Delta table `lake`."""

    def __init__(self, conn: Connection, dsn: str, folder: Path) -> None:
        self._conn = conn
        self._dsn = dsn
        self._folder = folder
        self.path = folder / "lake"
        self.publish()

    def publish(self) -> None:
        keys = ["plain", "a b/c:d%e=é", None, ""]
        events = [NewEvent(payload=n, key=keys[n % 4]) for n in range(EVENTS)]
        publish(self._conn, "outbox", events)

    def run(self, rest: str = KINDS, to: str = PARTITIONED) -> int:
        file = self._folder / "pipelines.yml"
        file.write_text(f"pipelines:\n  p:\n    from: outbox\n    {rest}\n    {to}\n")
        pipeline = load_pipelines(file)["p"]
        return run_pipeline(pipeline, self._dsn, master="local[2]", tell=str)

    def table(self) -> DeltaTable:
        from deltalake import DeltaTable

        return DeltaTable(str(self.path))

    def vacuum(self) -> None:
        self.table().vacuum(
            retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True
        )

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table().to_pyarrow_table().to_pylist()
        return rows

    def places(self) -> list[tuple[int, int]]:
        return sorted((row["partition"], row["offset"]) for row in self.rows())


@pytest.mark.long
def test_values_of_partitions_come_back_as_they_were(lake: Lake) -> None:
    """Spark writes some characters of a folder's name in another way, and so does Delta's log."""
    assert lake.run() == EVENTS
    assert {(row["key"] or None, row["kind"]) for row in lake.rows()} == {
        (key, key) for key in ("plain", "a b/c:d%e=é", None)
    }
    assert lake.table().count() == EVENTS
    assert lake.table().metadata().partition_columns == ["kind"]


@pytest.mark.long
def test_what_lost_attempts_left_is_not_read(lake: Lake) -> None:
    for point in ("pipeline.staged", "pipeline.staged", "pipeline.applied"):
        failpoints.arm({point: "raise"})
        with pytest.raises(GaplessError, match=point):
            lake.run()
    failpoints.arm({})
    assert lake.run() == EVENTS
    assert len(lake.places()) == len(set(lake.places())) == EVENTS
    files = {str(path) for path in lake.path.rglob("*.parquet")}
    orphans = files - set(lake.table().file_uris())
    assert orphans
    lake.vacuum()
    assert {str(path) for path in lake.path.rglob("*.parquet")} == files - orphans
    assert len(lake.places()) == EVENTS


@pytest.mark.long
def test_a_batch_that_is_committed_is_not_committed_again(lake: Lake) -> None:
    failpoints.arm({"pipeline.applied": "raise"})
    with pytest.raises(GaplessError):
        lake.run()
    failpoints.arm({})
    lake.table().delete()  # to commit the files again would bring back what somebody deleted
    assert lake.run() == EVENTS
    assert lake.places() == []


@pytest.mark.long
def test_files_that_were_removed_before_their_commit_are_missed(lake: Lake) -> None:
    failpoints.arm({"pipeline.written": "raise"})
    with pytest.raises(GaplessError):
        lake.run()
    failpoints.arm({})
    lake.vacuum()
    with pytest.raises(GaplessError, match=r"part-.*parquet.* is not there any more"):
        lake.run()
    assert lake.places() == []


@pytest.mark.long
def test_of_two_that_commit_a_batch_at_once_one_does(lake: Lake) -> None:
    """A run that was stopped before its commit, and goes on when another has done it."""

    def other(_: str) -> None:
        failpoints.arm({})
        table = lake.table()
        app = json.loads(
            lake._conn.execute("select files::text from gapless.pipeline").fetchall()[0][0]
        )
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction

        adds: list[Any] = [AddAction(**add, data_change=True) for add in app["adds"]]
        once = CommitProperties(app_transactions=[Transaction(app["app"], 0)])
        table.create_write_transaction(
            adds, "append", table.schema(), ["kind"], commit_properties=once
        )

    failpoints.arm({"pipeline.looked": other})
    with pytest.raises(GaplessError, match=r"Delta table .*[Cc]oncurrent"):
        lake.run()
    assert len(lake.places()) == EVENTS
    assert lake.run() == EVENTS
    assert len(lake.places()) == EVENTS


@pytest.mark.long
def test_a_database_that_was_put_back_is_noticed(lake: Lake, conn: Connection) -> None:
    lake.run()
    conn.execute("update gapless.pipeline set batch = 0")
    lake.publish()
    with pytest.raises(GaplessError, match="was the database restored"):
        lake.run()
    assert len(lake.places()) == EVENTS


@pytest.mark.long
def test_as_an_archive(lake: Lake, conn: Connection, dsn: str, topic: Topic) -> None:
    """Only what the table's log names counts, for verify and for the option archive."""
    failpoints.arm({"pipeline.staged": "raise"})
    with pytest.raises(GaplessError):
        lake.run(f"archive: true\n    {KINDS}")
    failpoints.arm({})
    lake.run(f"archive: true\n    {KINDS}")
    verdicts = list(verify(conn, "p"))
    assert sum(each.last - each.first + 1 for each in verdicts) == EVENTS
    assert not any(each.problem for each in verdicts)
    wanted = ReadRequest(dsn=dsn, columns=("partition", "offset", "value"))
    for each in verdicts:
        archived = Range(
            topic=each.topic,
            topic_id=topic.topic_id,
            partition_id=each.partition,
            first_offset=each.first,
            last_offset=each.last,
            archive=str(lake.path),
        )
        assert sum(batch.num_rows for batch in read_archived(wanted, archived)) == archived.events
    lake.table().delete("key = 'plain'")
    command = [sys.executable, "-m", "gapless", "pipeline", "verify", "p", "--dsn", dsn]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(4):  # at the end of a process, threads that read must not call into Python
        done = subprocess.run(command, env=paths, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        assert "are missing" in done.stdout


WRONG = {
    "one more": ("sql: select *, 1 as more, key as kind from events", "no column 'more'"),
    "no type": ("sql: select *, null as kind from events", "void, which Delta has not"),
}


@pytest.mark.long
@pytest.mark.parametrize("case", WRONG)
def test_rows_that_do_not_fit(lake: Lake, case: str) -> None:
    lake.run()
    lake.publish()
    rest, says = WRONG[case]
    with pytest.raises(UsageError, match=says) as refused:
        lake.run(rest)
    assert "\n" not in str(refused.value)
    assert len(lake.places()) == EVENTS
    assert lake.run("sql: select partition, offset, key as kind from events") == EVENTS
    assert len(lake.places()) == 2 * EVENTS


@pytest.mark.long
def test_a_table_that_wants_more_of_its_writers(lake: Lake) -> None:
    lake.run()
    lake.table().alter.add_constraint({"few": "offset < 1000"})
    lake.publish()
    with pytest.raises(UsageError, match="asks of its writers"):
        lake.run()


@pytest.mark.long
def test_another_kind_of_target_half_way(lake: Lake) -> None:
    failpoints.arm({"pipeline.written": "raise"})
    with pytest.raises(GaplessError):
        lake.run()
    failpoints.arm({})
    with pytest.raises(UsageError, match="on their way into delta"):
        lake.run(to="to: {parquet: cold}")
    lake.run()
    assert len(lake.places()) == EVENTS
    lake.publish()
    with pytest.raises(UsageError, match="is a Delta table"):
        lake.run(to="to: {parquet: lake}")


def test_without_the_package(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(UsageError, match=r"pip install gapless\[delta\]"):
        lake.run()
