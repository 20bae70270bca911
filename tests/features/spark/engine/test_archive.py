"""Archive, verify, drop, read as one: what retention took is in the files, every event of it, once."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from psycopg import Connection, connect

from gapless.errors import GaplessError
from gapless.features.retention.chunks import (
    HistoryRetention,
    Retention,
    apply_retention,
    plan_retention,
    set_retention,
)
from gapless.features.spark.pipeline import lease
from gapless.features.spark.pipeline.compact import compact_pipeline
from gapless.features.spark.pipeline.document import load_pipelines
from gapless.features.spark.pipeline.lease import files_locked
from gapless.features.spark.pipeline.position import remove
from gapless.features.spark.pipeline.run import run_pipeline
from gapless.features.spark.pipeline.verify import verify
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.chunks import next_chunk, small_chunks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEEP = HistoryRetention(letters_s=60, audit_s=60)
DOCUMENT = """
pipelines:
  cold:
    from: outbox
    archive: true
    sql: select *, date(timestamp) as day from events {where}
    to:
      parquet: {folder}/cold
      partitionBy: day
"""


def _run(dsn: str, folder: Path, where: str = "") -> int:
    file = folder / "pipelines.yml"
    file.write_text(DOCUMENT.format(folder=folder, where=where))
    return run_pipeline(load_pipelines(file)["cold"], dsn, master="local[2]", tell=str)


def _fill(conn: Connection, events: int = 100) -> None:
    publish(conn, "outbox", [NewEvent(payload=n, key=str(n)) for n in range(events)])
    sequence(conn)


@pytest.mark.long
def test_what_was_archived_may_be_dropped_and_is_read_as_one(
    spark: SparkSession, conn: Connection, dsn: str, topic: Topic, tmp_path: Path
) -> None:
    small_chunks(conn)
    _fill(conn)
    next_chunk(conn)
    for _ in range(3):
        _fill(conn)
    set_retention(conn, "outbox", Retention(keep_s=0.000_001, archive="cold"))
    assert apply_retention(conn, KEEP) == []
    (reason,) = plan_retention(conn)[0].reasons
    assert reason == (
        "topic outbox waits for pipeline cold, which has never run: gapless pipeline run cold, "
        "or gapless topics alter outbox --archive none"
    )

    with pytest.raises(GaplessError, match="is an archive, but its transform did not return"):
        _run(dsn, tmp_path, "where offset % 10 <> 3")
    assert not list((tmp_path / "cold").rglob("*.parquet"))
    assert apply_retention(conn, KEEP) == []

    assert _run(dsn, tmp_path) == 400
    assert all(each.problem is None for each in verify(conn, "cold"))
    assert len(apply_retention(conn, KEEP)) == 1

    _fill(conn, 50)
    read = spark.read.format("gapless").option("url", dsn).option("subscribe", "outbox")
    assert read.load().count() == 350
    beginning = json.dumps({"outbox": dict.fromkeys(map(str, range(topic.partitions)), 1)})
    whole = read.option("archive", str(tmp_path / "cold")).option("startingOffsets", beginning)
    rows = whole.load().select("partition", "offset").collect()
    assert len(rows) == len(set(rows)) == 450

    lost = min((tmp_path / "cold").rglob("*.parquet"))
    lost.unlink()
    problems = [each.problem for each in verify(conn, "cold") if each.problem]
    assert problems
    assert "are missing" in problems[0]


@pytest.mark.long
def test_small_files_are_merged_beside_a_run(
    spark: SparkSession,
    conn: Connection,
    dsn: str,
    topic: Topic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark reads the same rows; a run waits for the exchange, and none writes merged rows again."""
    monkeypatch.setattr(lease, "FILES_MS", 200)
    for _ in range(2):
        _fill(conn, 50)
        assert _run(dsn, tmp_path) == 50
    archived = spark.read.parquet(str(tmp_path / "cold"))
    before = archived.schema, sorted(archived.collect(), key=str)
    assert compact_pipeline(conn, "cold", before=date.max)
    archived = spark.read.parquet(str(tmp_path / "cold"))
    assert (archived.schema, sorted(archived.collect(), key=str)) == before
    assert len(list((tmp_path / "cold").rglob("*.parquet"))) == 1
    _fill(conn, 50)
    with connect(dsn, autocommit=True) as other, files_locked(other, "cold"):
        with pytest.raises(GaplessError, match="another process moves files of pipeline cold"):
            _run(dsn, tmp_path)
    assert len(list((tmp_path / "cold").rglob("*.parquet"))) == 1
    assert _run(dsn, tmp_path) == 50
    assert all(each.problem is None for each in verify(conn, "cold"))
    remove(conn, "cold")
    with pytest.raises(
        GaplessError, match=r"is there already, and .* \(it was merged into cold-0000000000[+]"
    ):
        _run(dsn, tmp_path)
