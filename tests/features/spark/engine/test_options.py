"""What users of Kafka's source know, in a stream; its lag; and a schema that is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import Connection

from gapless import ops
from gapless.features.spark.session import sentence
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import ensure_topic
from gapless.spark import LagListener, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = {
    "type": "object",
    "properties": {
        "total": {"type": "number", "multipleOf": 0.01},
        "paid": {"oneOf": [{"type": "boolean"}, {"type": "string"}]},
        "items": {"type": "array", "items": {"type": "integer"}},
    },
}


@pytest.mark.long
def test_a_stream_of_a_pattern_with_kafkas_columns_and_its_lag(
    spark: SparkSession, dsn: str, conn: Connection, tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    pytest.importorskip("jsonschema_rs")
    for topic in ("orders.eu", "orders.us", "payments"):
        ensure_topic(conn, topic, partitions=2)
        ops.add_schema(conn, topic, json.dumps(SCHEMA))
        payload = {"total": 19.99, "paid": True, "items": [1, 2]}
        publish(conn, topic, [NewEvent(payload=payload, key="k", headers={"trace": "ü"})])
    told: list[Any] = []
    listener = LagListener(dsn, told=told.append)
    spark.streams.addListener(listener)
    rows: list[Any] = []

    def collect(df: DataFrame, _: int) -> None:
        rows.extend(df.collect())

    order = f.from_json("value", schema_of("orders.eu", url=dsn)).alias("order")
    df = (
        spark.readStream.format("gapless")
        .options(url=dsn, subscribePattern=r"orders\..*", startingOffsets="-1000")
        .options(keyFormat="binary", includeHeaders="true", maxRecordsPerPartition=1)
        .load()
    )
    query = (
        df.select("topic", "key", "headers", order)
        .writeStream.queryName("totals")
        .foreachBatch(collect)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        spark.streams.removeListener(listener)
        listener.close()
    assert sorted(row.topic for row in rows) == ["orders.eu", "orders.us"]
    for row in rows:
        assert (bytes(row.key), row.headers[0].key) == (b"k", "trace")
        assert bytes(row.headers[0].value).decode() == "ü"
        assert (str(row.order.total), row.order.paid, row.order["items"]) == (
            "19.99",
            "true",
            [1, 2],
        )
    assert (told[-1].query, told[-1].events, len(told[-1].partitions)) == ("totals", 0, 4)


@pytest.mark.parametrize("way", ["read", "readStream"])
def test_a_schema_of_the_users_is_refused(
    spark: SparkSession, dsn: str, conn: Connection, tmp_path: Path, way: str
) -> None:
    ensure_topic(conn, "orders", partitions=1)
    reader: Any = getattr(spark, way).format("gapless").schema("key string, total double")
    with pytest.raises(Exception, match="gapless") as refused:
        df = reader.options(url=dsn, subscribe="orders").load()
        if way == "read":
            df.count()
        else:
            sink = df.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
            sink.trigger(availableNow=True).start().awaitTermination()
    said = sentence(refused.value)
    assert "leave .schema(...) out, and choose columns with option columns" in said
    assert "\n" not in said
