"""Tests of Spark's source, sink and pipelines, most of them without Spark."""

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_session_left() -> Iterator[None]:
    """Sessions that a task keeps end with the test."""
    yield
    if bulk := sys.modules.get("gapless.features.spark.bulk"):
        bulk.close()
