"""Transforms that tests of pipelines name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def totals(df: DataFrame) -> DataFrame:
    """Count and sum by key."""
    from pyspark.sql import functions as f

    number = f.get_json_object("value", "$.n").cast("bigint")
    return df.groupBy("key").agg(f.count("*").alias("n"), f.sum(number).alias("total"))
