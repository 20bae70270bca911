"""Transforms that tests of pipelines name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def totals(df: DataFrame) -> DataFrame:
    """Count and sum by key."""
    from pyspark.sql import functions as f

    number = f.get_json_object("value", "$.n").cast("bigint")
    return df.groupBy("key").agg(f.count("*").alias("n"), f.sum(number).alias("total"))


def a_number(df: DataFrame) -> int:
    """Return no DataFrame."""
    return 5


def fails(df: DataFrame) -> DataFrame:
    """Fail where the pipeline runs."""
    raise ValueError("not today")


def exits(df: DataFrame) -> DataFrame:
    """End the process, as a program may."""
    sys.exit("no")


def fails_later(df: DataFrame) -> DataFrame:
    """Fail where Spark's tasks run."""

    def fail(batches: object) -> object:
        raise ValueError("not in a task")

    return df.select("key").mapInArrow(fail, "key string")
