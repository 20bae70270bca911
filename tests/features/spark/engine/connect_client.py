"""A program of Spark Connect, which SPARK_REMOTE names; prints the answer of one deed as JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from gapless.errors import UsageError
from gapless.features.spark.connect import is_connect
from gapless.features.spark.session import sentence, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read(spark: SparkSession, dsn: str, _: str) -> Any:
    """The places of a batch read, and the sentence for a wrong option."""
    df = spark.read.format("gapless").options(url=dsn, subscribe="outbox").load()
    places = [[row.partition, row.offset] for row in df.select("partition", "offset").collect()]
    try:
        spark.read.format("gapless").options(url=dsn, subscribe="none").load().count()
    except Exception as error:  # noqa: BLE001 - Spark's own
        return {"places": places, "wrong": sentence(error)}
    return {"places": places}


def write(spark: SparkSession, dsn: str, _: str) -> Any:
    """Twice under one writeId."""
    df = spark.range(500).selectExpr("cast(id as string) key", "to_json(struct(id)) value")
    for _ in range(2):
        options = {"url": dsn, "topic": "outbox", "writeId": "load"}
        df.write.format("gapless").options(**options).mode("append").save()
    return {}


def stream(spark: SparkSession, dsn: str, checkpoint: str) -> Any:
    """All that there is, back into the log."""
    options = {"url": dsn, "subscribe": "outbox", "startingOffsets": "earliest"}
    source = spark.readStream.format("gapless").options(**options, columns="key,value").load()
    sink = source.writeStream.format("gapless").options(url=dsn, topic="again")
    query = sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    return {}


def settings(spark: SparkSession, _: str, __: str) -> Any:
    """The session that runs is taken; a setting that it cannot take is refused."""
    assert spark_session(conf={"spark.sql.shuffle.partitions": "3"}) is spark
    try:
        spark_session(conf={"spark.executor.memory": "9g"})
    except UsageError as error:
        return {"partitions": spark.conf.get("spark.sql.shuffle.partitions"), "wrong": str(error)}
    return {}


def main() -> None:
    deed, dsn, folder = sys.argv[1:]
    spark = spark_session()
    assert is_connect(spark)
    deeds = {"read": read, "write": write, "stream": stream, "settings": settings}
    sys.stdout.write(json.dumps(deeds[deed](spark, dsn, folder)) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
