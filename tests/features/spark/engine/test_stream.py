"""Streaming reads: consistent micro-batches, limits, restarts, and a position that people see."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import Connection

from gapless.features.spark.session import sentence
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


HAS_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None  # PySpark 4.2
needs_limits = pytest.mark.skipif(not HAS_LIMITS, reason="limits need PySpark 4.2")


class Query:
    """A query that collects what it reads, run as Trigger.AvailableNow, again and again."""

    def __init__(self, spark: SparkSession, dsn: str, checkpoint: Path, **options: Any) -> None:
        self._spark = spark
        self._options = {
            "url": dsn,
            "subscribe": "outbox",
            "startingOffsets": "earliest",
            **options,
        }
        self._checkpoint = checkpoint
        self.batches: list[list[Any]] = []
        self.progress: list[Any] = []

    def run(self) -> None:
        """Read all there is; return when the query has ended."""

        def collect(df: DataFrame, _: int) -> None:
            self.batches.append(df.collect())

        query = (
            self._spark.readStream.format("gapless")
            .options(**self._options)
            .load()
            .writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            self.progress += query.recentProgress
            query.stop()

    @property
    def places(self) -> list[tuple[int, int]]:
        return [(row.partition, row.offset) for rows in self.batches for row in rows]


def _publish(conn: Connection, transactions: int, events: int) -> None:
    for _ in range(transactions):
        publish(conn, "outbox", [NewEvent(payload={}, key=str(n)) for n in range(events)])
    sequence(conn)


def _group(conn: Connection, group_id: str) -> int:
    row = conn.execute(
        "select sum(next_offset - 1) from gapless.consumer_offsets where group_id = %s", [group_id]
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.long
@needs_limits
def test_all_of_it_in_whole_transactions_and_again_after_a_restart(
    spark: SparkSession, dsn: str, conn: Connection, topic: Topic, tmp_path: Path
) -> None:
    _publish(conn, 20, 10)
    query = Query(spark, dsn, tmp_path / "c", maxOffsetsPerTrigger=45, groupId="lab")
    query.run()
    assert [len(rows) for rows in query.batches] == [40] * 5, "limited, and yet all of it"
    for rows in query.batches:
        assert set(Counter(row.transaction_id for row in rows).values()) == {10}
    assert _group(conn, "lab") == 200
    publish(conn, "outbox", {}, key="later")  # nobody sequences: the query does
    query.run()
    assert len(query.places) == len(set(query.places)) == 201
    assert _group(conn, "lab") == 201
    source = query.progress[0].sources[0]
    assert sum(offset - 1 for offset in _offsets(source.latestOffset)) == 200
    assert sum(offset - 1 for offset in _offsets(source.endOffset)) == 40


@pytest.mark.long
def test_all_of_it_without_a_limit_and_again_after_a_restart(
    spark: SparkSession, dsn: str, conn: Connection, topic: Topic, tmp_path: Path
) -> None:
    """As every PySpark from 4.0 on does it."""
    _publish(conn, 20, 10)
    query = Query(spark, dsn, tmp_path / "c", groupId="lab")
    query.run()
    assert [len(rows) for rows in query.batches if rows] == [200]
    publish(conn, "outbox", {}, key="later")  # nobody sequences: the query does
    query.run()
    assert len(query.places) == len(set(query.places)) == 201
    assert _group(conn, "lab") >= 200


@pytest.mark.long
def test_a_first_batch_that_is_repeated_begins_where_it_began(
    spark: SparkSession, dsn: str, conn: Connection, topic: Topic, tmp_path: Path
) -> None:
    """Spark asks for the beginning again, and by then it is elsewhere."""
    _publish(conn, 5, 20)
    query = Query(spark, dsn, tmp_path / "c", startingOffsets="-5")
    query.run()
    first = sorted(query.places)
    (commit,) = (tmp_path / "c" / "commits").glob("[0-9]*")
    commit.unlink()  # as if the driver had died in its first batch
    commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    _publish(conn, 5, 20)
    query.batches.clear()
    query.run()
    assert sorted((row.partition, row.offset) for row in query.batches[0]) == first
    assert len(query.places) == len(set(query.places)) == len(first) + 100


@pytest.mark.skipif(HAS_LIMITS, reason="they work")
def test_limits_are_refused_where_spark_has_none(
    spark: SparkSession, dsn: str, topic: Topic, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="gapless") as refused:
        Query(spark, dsn, tmp_path / "c", maxOffsetsPerTrigger=45).run()
    assert "need PySpark 4.2 or newer" in sentence(refused.value)


def _offsets(text: str) -> list[int]:
    import json

    return list(json.loads(text)["outbox"].values())


@pytest.mark.long
def test_a_checkpoint_of_another_topic_is_refused(
    spark: SparkSession, dsn: str, conn: Connection, topic: Topic, tmp_path: Path
) -> None:
    _publish(conn, 1, 1)
    ensure_topic(conn, "other", partitions=2)
    Query(spark, dsn, tmp_path / "c").run()
    with pytest.raises(Exception, match="gapless") as refused:
        Query(spark, dsn, tmp_path / "c", subscribe="other").run()
    assert "the checkpoint belongs to topic outbox" in sentence(refused.value)


@pytest.mark.long
def test_the_log_back_into_the_log_exactly_once(
    spark: SparkSession, dsn: str, conn: Connection, topic: Topic, tmp_path: Path
) -> None:
    """A task that fails at first, and a restart that publishes a batch again: nothing is doubled."""
    ensure_topic(conn, "copy", partitions=3)
    _publish(conn, 30, 10)
    marker = str(tmp_path / "failed once")

    def fail_once(batches: Any) -> Any:
        from pathlib import Path as _Path

        yield from batches
        if not _Path(marker).exists():
            _Path(marker).touch()
            raise RuntimeError("the first attempt fails after it has read")

    def run() -> None:
        df = (
            spark.readStream.format("gapless")
            .options(url=dsn, subscribe="outbox", startingOffsets="earliest")
            .options(**({"maxOffsetsPerTrigger": 100} if HAS_LIMITS else {}))
            .options(columns="key,value,transaction_id", minPartitions=3)
            .load()
        )
        df = df.mapInArrow(fail_once, df.schema)
        query = (
            df.writeStream.format("gapless")
            .options(url=dsn, topic="copy", checkpointLocation=str(tmp_path / "c"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run()
    assert Path(marker).exists()
    newest = max((tmp_path / "c" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()  # as if the driver had died before it knew that the batch was published
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    run()
    row = conn.execute(
        "select count(*), count(distinct (o.transaction_id, o.key)) from gapless.outbox_message_t o"
        " join gapless.topic t using (topic_id) where t.name = 'copy'"
    ).fetchone()
    assert row == (300, 300)


@pytest.mark.long
def test_a_batch_write_with_a_write_id_is_done_once(
    spark: SparkSession, dsn: str, conn: Connection, topic: Topic
) -> None:
    df = spark.range(1000).selectExpr("cast(id as string) key", "to_json(struct(id)) value")
    for _ in range(2):
        df.write.format("gapless").options(url=dsn, topic="outbox", writeId="load").mode(
            "append"
        ).save()
    assert conn.execute("select count(*) from gapless.outbox_message_t").fetchone() == (1000,)
    with pytest.raises(Exception, match="gapless") as refused:
        df.withColumnRenamed("value", "body").write.format("gapless").options(
            url=dsn, topic="outbox"
        ).mode("append").save()
    assert "a column value is needed" in sentence(refused.value)
