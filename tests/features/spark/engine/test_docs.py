"""The first example of docs/use/spark.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from psycopg import Connection

from gapless.log.publish import publish
from gapless.log.topics import ensure_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[4] / "docs" / "use" / "spark.md"


@pytest.mark.long
def test_the_example_runs(
    spark: SparkSession, conn: Connection, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ensure_topic(conn, "orders", partitions=2)
    for total in (5, 37):
        publish(conn, "orders", {"total": total}, key="AA")
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    example = blocks[0].replace("postgresql://me@host/shop", dsn.replace('"', ""))
    exec(compile(example, str(PAGE), "exec"), {})
    assert "42.0" in capsys.readouterr().out
    assert spark.version
