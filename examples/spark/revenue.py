"""Revenue per minute and product, as a stream: from sales to Parquet, and back to a topic.

    export GAPLESS_DSN=postgresql://me@host/shop
    python examples/spark/revenue.py /tmp/revenue

Needs Java and the extras spark and schema: pip install 'gapless[spark,schema]'. Sales come in twice
here, and the query runs after each time: the second run continues where the first has ended.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

import gapless
from gapless import ops
from gapless.spark import schema_of, spark_session

sys.path[:0] = [str(Path(__file__).parent.parent)]

from playing import prepare  # noqa: E402 - needs the path above

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

URL = os.environ["GAPLESS_DSN"]
SALES, REVENUE = "shop.sales", "shop.revenue"
LATE = timedelta(minutes=2)
SALE = {
    "type": "object",
    "properties": {
        "product": {"type": "string"},
        "amount": {"type": "number", "multipleOf": 0.01},
        "sold_at": {"type": "string", "format": "date-time"},
    },
    "required": ["product", "amount", "sold_at"],
}


def per_minute(sales: DataFrame) -> DataFrame:
    """Return the revenue of each minute and product, once no sale of it can come any more."""
    sale = f.from_json("value", schema_of(SALES, url=URL)).alias("sale")
    return (
        sales.select(sale)
        .select("sale.product", "sale.amount", f.to_timestamp("sale.sold_at").alias("sold_at"))
        .withWatermark("sold_at", f"{LATE.seconds} seconds")
        .groupBy(f.window("sold_at", "1 minute"), "product")
        .agg(f.count("*").alias("sales"), f.sum("amount").alias("revenue"))
        .select(f.col("window.start").alias("minute"), "product", "sales", "revenue")
    )


def write(folder: Path, batch: DataFrame, number: int) -> None:
    """Write a batch to Parquet and to the topic, each of them once however often it is called.

    Spark calls this again for a batch that a crash interrupted: its folder is replaced, and the
    topic publishes a writeId once. Two actions: without persist() the second reads all of it anew.
    """
    batch.persist()
    try:
        if batch.isEmpty():
            return
        batch.write.mode("overwrite").parquet(f"{folder}/minutes/batch={number}")
        batch.selectExpr(
            "product as key", "to_json(struct(*)) as value", "'minute' as event_type"
        ).write.format("gapless").options(
            url=URL, topic=REVENUE, writeId=f"{folder} {number}"
        ).mode("append").save()
    finally:
        batch.unpersist()


def start(spark: SparkSession, folder: Path, **trigger: Any) -> StreamingQuery:
    """Start the query; with the same folder it continues where it ended."""
    sales = (
        spark.readStream.format("gapless")
        .options(url=URL, subscribe=SALES, startingOffsets="earliest")
        .options(columns="value", groupId="revenue")
        .load()
    )
    return (
        per_minute(sales)
        .writeStream.queryName("revenue")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .foreachBatch(partial(write, folder))
        .trigger(**trigger)
        .start()
    )


def sell(random: Random, begin: datetime) -> Iterator[dict[str, Any]]:
    """Yield the sales of five minutes; some come late, in no order."""
    for n in range(100):
        at = begin + timedelta(seconds=3 * n - random.randint(0, 60))
        product = random.choice(["book", "desk", "lamp"])
        amount = random.randint(100, 9999) / 100
        yield {"product": product, "amount": amount, "sold_at": at.isoformat()}


def main(folder: Path) -> int:
    """Play; return 0 when the topic has what the sales add up to."""
    random, noon = Random(7), datetime(2026, 1, 31, 12, tzinfo=UTC)  # noqa: S311 - no secrets
    with gapless.connect() as conn:
        prepare({SALES: None, REVENUE: None})
        ops.add_schema(conn, SALES, json.dumps(SALE))
    spark = spark_session("local[2]")
    sales: list[dict[str, Any]] = []
    for begin in (noon, noon + timedelta(minutes=5)):
        new = list(sell(random, begin))
        with gapless.connect() as conn:
            gapless.publish(conn, SALES, [gapless.NewEvent(payload=each) for each in new])
        sales += new
        start(spark, folder, availableNow=True).awaitTermination()
    files = spark.read.parquet(f"{folder}/minutes").count()
    rows = [json.loads(row.value) for row in read(spark, REVENUE).select("value").collect()]
    found = {
        (datetime.fromisoformat(row["minute"]), row["product"]): round(row["revenue"], 2)
        for row in rows
    }
    minutes = {minute for minute, _ in found}
    print(f"{len(sales)} sales, {len(minutes)} minutes over, {len(rows)} rows of revenue")
    return 0 if found == expected(sales) and len(found) == len(rows) == files else 1


def read(spark: SparkSession, topic: str) -> DataFrame:
    """Return the events of a topic up to now."""
    return spark.read.format("gapless").options(url=URL, subscribe=topic).load()


def expected(sales: list[dict[str, Any]]) -> dict[tuple[datetime, str], float]:
    """Return the revenue of the minutes and products of which no sale can come any more."""
    times = [datetime.fromisoformat(each["sold_at"]) for each in sales]
    totals: dict[tuple[datetime, str], float] = {}
    for sold_at, sale in zip(times, sales, strict=True):
        minute = sold_at.replace(second=0)
        if minute + timedelta(minutes=1) <= max(times) - LATE:
            key = minute, sale["product"]
            totals[key] = round(totals.get(key, 0.0) + sale["amount"], 2)
    return totals


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
