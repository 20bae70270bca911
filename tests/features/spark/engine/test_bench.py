"""The benchmark of Spark runs, and every figure has a value. Tiny: nothing is measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from benchmarks.server import Setup
from benchmarks.spark import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_it_runs(spark: SparkSession, server_dsn: str) -> None:
    figures = run(Setup(dsn=server_dsn, size="tiny"))
    assert len(figures) >= 5  # and the memory of processes, on Linux
    assert all(figure.ours and min(figure.ours) >= 0 for figure in figures)
    assert spark.sparkContext.defaultParallelism
