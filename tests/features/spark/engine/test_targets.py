"""Targets of pipelines with Spark in front: merges, Iceberg, another database, days as folders."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import Connection

from gapless.errors import UsageError
from gapless.features.spark.pipeline.days import with_days
from gapless.features.spark.pipeline.document import load_pipelines
from gapless.features.spark.pipeline.run import run_pipeline
from gapless.features.spark.pipeline.spec import read_target
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENT = """
pipelines:
  delta:
    from: outbox
    batchEvents: 20
    sql: >
      select key, partition, offset, timestamp, value, try_cast(value as int) as n from events
    to: {{delta: {folder}/delta, mode: upsert, key: key, partitionBy: day(timestamp)}}
  iceberg:
    from: outbox
    batchEvents: 20
    sql: >
      select key, partition, offset, timestamp, value, try_cast(value as int) as n from events
    to:
      iceberg: shop.orders
      catalog: {{uri: env:CATALOG, warehouse: "file://{folder}/warehouse"}}
      mode: upsert
      key: key
      partitionBy: day(timestamp)
  other:
    from: outbox
    sql: >
      select key, count(v) as n, sum(v) as total, min(v) as low
      from (select key, try_cast(value as int) as v from events) group by key
    to: {{table: totals, key: key, min: low, avg: {{mean: [total, n]}}, url: env:OTHER}}
  parquet:
    from: outbox
    to: {{parquet: {folder}/parquet, partitionBy: day(timestamp)}}
"""


@pytest.mark.long
def test_each_target_has_every_key_as_it_is_last(
    spark: SparkSession,
    conn: Connection,
    dsn: str,
    topic: Topic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("pyiceberg")
    monkeypatch.setenv("CATALOG", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("OTHER", dsn)  # that it is another one makes no difference here
    file = tmp_path / "pipelines.yml"
    file.write_text(DOCUMENT.format(folder=tmp_path))
    pipelines = load_pipelines(file)
    conn.execute("create table totals (key text primary key, n int, total int, low int, mean real)")
    values: list[tuple[str, int | None]] = [(f"k{n % 5}", n) for n in range(40)]
    values += [("k0", None), ("k1", 99)]
    for first in range(0, len(values), 6):
        some = values[first : first + 6]
        publish(conn, "outbox", [NewEvent(payload=value, key=key) for key, value in some])
    for name, pipeline in pipelines.items():
        assert run_pipeline(pipeline, dsn, master="local[2]", tell=str) == len(values), name
    newest = {key: value for key, value in dict(values).items() if value is not None}
    days = conn.execute(
        "select (created_ts at time zone 'utc')::date from gapless.outbox_message_t"
    ).fetchall()
    today = {day for (day,) in days}
    for rows in (_delta(tmp_path), _iceberg(tmp_path)):
        assert {row["key"]: row["n"] for row in rows} == newest
        assert {row["timestamp_day"] for row in rows} <= today
        assert all(json.loads(row["value"]) == row["n"] for row in rows)
    folders = {path.parent.name for path in (tmp_path / "parquet").rglob("*.parquet")}
    assert folders <= {f"timestamp_day={day}" for day in today}
    found = conn.execute("select key, n, total, low, mean from totals order by key").fetchall()
    for key, n, total, low, mean in found:
        numbers = [value for each, value in values if each == key and value is not None]
        assert (n, total, low) == (len(numbers), sum(numbers), min(numbers))
        assert mean == pytest.approx(total / n)
    assert len(found) == 5
    stored = conn.execute("select target from gapless.pipeline where name = 'other'").fetchall()
    assert stored == [("table totals at env:OTHER",)]


def _delta(folder: Path) -> list[dict[str, Any]]:
    from deltalake import DeltaTable

    rows: list[dict[str, Any]] = DeltaTable(str(folder / "delta")).to_pyarrow_table().to_pylist()
    return rows


def _iceberg(folder: Path) -> list[dict[str, Any]]:
    from pyiceberg.catalog import load_catalog

    with load_catalog("default", uri=f"sqlite:///{folder}/catalog.db") as catalog:
        table = catalog.load_table("shop.orders")
        rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return rows


@pytest.mark.long
def test_a_day_is_utcs_in_any_zone_of_the_session(spark: SparkSession) -> None:
    target = read_target("to", {"parquet": "x", "partitionBy": ["day(t)", "day(d)"]})
    assert target.partition_by == ("t_day", "d_day")
    before = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    try:
        for zone in ("UTC", "America/New_York", "Asia/Tokyo"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            df = spark.sql("select timestamp'2026-01-31 23:30:00 UTC' as t, date'2026-02-01' as d")
            (row,) = with_days(df, target).collect()
            assert (row.t_day, row.d_day) == (date(2026, 1, 31), date(2026, 2, 1)), zone
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    with pytest.raises(UsageError, match=r"day\(d\) needs a time, and d is int"):
        with_days(spark.sql("select timestamp'2026-01-31 23:30:00 UTC' as t, 1 as d"), target)
