"""The pipelines of `gapless demo --spark`, against figures computed straight from the file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import Connection
from rich.console import Console

from gapless.demo.flights import flights
from gapless.demo.pipelines import run_pipelines
from gapless.demo.producers import _event
from gapless.demo.stage import install_demo
from gapless.log.publish import publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLIGHTS = 600


@pytest.mark.long
def test_archive_and_hours_agree_with_the_file(
    spark: SparkSession, conn: Connection, dsn: str, tmp_path: Path
) -> None:
    install_demo(conn)
    module = flights("flights")
    for flight in module.read_flights(FLIGHTS):
        publish(conn, "flights", [_event(flight, event) for event in module.events_of(flight)])
    checks: list[Any] = run_pipelines(Console(quiet=True), conn, dsn, tmp_path, FLIGHTS)
    assert [check.name for check in checks] == ["hours", "archive"]
    for check in checks:
        assert check.expected_count == check.actual_count > 100
        assert not check.differences
