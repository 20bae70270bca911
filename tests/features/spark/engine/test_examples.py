"""The example of Spark runs as its README says, in a session of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from docs.examples import play, said

TIMEOUT_S = 550  # two sessions of Spark, one after the other

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_it_runs_as_its_readme_says(spark: SparkSession, dsn: str) -> None:
    """`spark`: where there is none to be had, this is skipped as all tests of Spark are."""
    _, expected = said("spark")
    assert play("spark", dsn, TIMEOUT_S) == expected
