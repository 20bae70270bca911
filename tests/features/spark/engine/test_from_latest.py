"""A compacted topic as a snapshot, then changes, in a query of Spark that is started again and again."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from psycopg import Connection

from gapless.features.compaction.latest import set_compaction
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _fill(conn: Connection, keys: range, value: int) -> None:
    for key in keys:  # each a transaction
        publish(conn, "outbox", [NewEvent(payload=value, key=str(key))])
    sequence(conn)
    conn.execute("select gapless.compact()")


@pytest.mark.long
def test_the_newest_of_each_key_then_the_log(
    spark: SparkSession, conn: Connection, dsn: str, topic: Topic, tmp_path: Path
) -> None:
    set_compaction(conn, "outbox", compact=True)
    for value in range(3):
        _fill(conn, range(100), value)
    read = {"url": dsn, "subscribe": "outbox", "startingOffsets": "latest-per-key"}
    batches: list[list[tuple[str, str]]] = []
    fails = [True]

    def take(batch: DataFrame, _number: int) -> None:
        rows = [(row.key, row.value) for row in batch.select("key", "value").collect()]
        if fails:
            _fill(conn, range(5), 3)  # the rows of these keys are in the table no more
            fails.clear()
            raise ValueError("the first batch is run again")
        batches.append(sorted(rows))

    def run() -> None:
        stream = spark.readStream.format("gapless").options(**read, maxOffsetsPerTrigger="7").load()
        writer = stream.writeStream.foreachBatch(take).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.awaitTermination()

    with pytest.raises(Exception, match="the first batch is run again"):
        run()
    run()
    assert batches[0] == sorted((str(key), "2") for key in range(5, 100))
    assert sorted(chain(*batches[1:])) == [(str(key), "3") for key in range(5)]
    batches.clear()
    _fill(conn, range(90, 110), 4)
    run()
    assert sorted(chain(*batches)) == sorted((str(key), "4") for key in range(90, 110))
    assert max(map(len, batches)) <= 7

    now = spark.read.format("gapless").options(**read).load().select("key", "value").collect()
    assert {row.key: json.loads(row.value) for row in now} == {
        str(key): 3 if key < 5 else 4 if key >= 90 else 2 for key in range(110)
    }
    with pytest.raises(Exception, match="topic other is not compacted"):
        conn.execute("select gapless.create_topic('other', 1)")
        spark.read.format("gapless").options(**{**read, "subscribe": "other"}).load().count()
