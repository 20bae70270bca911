"""`spark.read.format("gapless")`: found without registering, exact, and refused in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg import Connection

from gapless.features.spark.session import sentence
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = 400


@pytest.fixture
def published(conn: Connection, topic: Topic) -> int:
    """400 events, a fifth of them in transactions of many."""
    for n in range(0, EVENTS, 20):
        publish(
            conn,
            "outbox",
            [NewEvent(payload={"n": n + i}, key=f"k{n + i}", event_type="made") for i in range(20)],
        )
    sequence(conn)
    return EVENTS


def _load(spark: SparkSession, dsn: str, **options: Any) -> DataFrame:
    given = {"url": dsn, "subscribe": "outbox", **options}
    return spark.read.format("gapless").options(**given).load()


def test_found_by_its_name_and_complete(spark: SparkSession, dsn: str, published: int) -> None:
    df = _load(spark, dsn, recordsPerTask=60)
    rows = df.select("value", "partition", "offset", "key").collect()
    assert sorted(int(row.value[5:-1].strip(" :")) for row in rows) == list(range(EVENTS))
    places = {(row.partition, row.offset) for row in rows}
    assert len(places) == EVENTS
    assert max(offset for _, offset in places) < EVENTS
    assert df.rdd.getNumPartitions() >= 7


@pytest.mark.long
def test_a_filter_of_one_query_never_reaches_another(
    spark: SparkSession, dsn: str, published: int
) -> None:
    """Spark's push-down for Python sources leaks (docs/use/spark.md): it must not be reachable."""
    from pyspark_gapless.source import GaplessReader

    assert "pushFilters" not in vars(GaplessReader)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        df = _load(spark, dsn, columns="partition,offset")
        df.createOrReplaceTempView("log")
        some = df.where("partition = 3 and offset < 10")
        assert some.count() == 9
        assert df.count() == EVENTS
        assert some.union(df.where("partition = 1 and offset <= 2")).count() == 11
        assert spark.sql("select count(*) c from log").first().c == EVENTS
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.long
def test_a_dataframe_is_a_fixed_range(
    spark: SparkSession, dsn: str, conn: Connection, published: int
) -> None:
    df = _load(spark, dsn, columns="offset")
    assert df.count() == EVENTS
    publish(conn, "outbox", {}, key="later")
    sequence(conn)
    assert df.count() == EVENTS
    assert _load(spark, dsn, columns="offset").count() == EVENTS + 1


@pytest.mark.long
def test_a_hole_fails_the_query(
    spark: SparkSession, dsn: str, conn: Connection, published: int
) -> None:
    conn.execute("delete from gapless.outbox_message_t where id = 33")
    with pytest.raises(Exception, match="gapless") as refused:
        _load(spark, dsn).count()
    assert "missing from outbox_message_t" in sentence(refused.value)
    assert _load(spark, dsn, failOnDataLoss="false").count() == EVENTS - 1
