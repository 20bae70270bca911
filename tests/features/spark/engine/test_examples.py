"""The examples of Spark: one as its README says, in a session of its own, one in the tests' session."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docs.examples import EXAMPLES, play, said

TIMEOUT_S = 550  # two sessions of Spark, one after the other

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_it_runs_as_its_readme_says(spark: SparkSession, dsn: str) -> None:
    """`spark`: where there is none to be had, this is skipped as all tests of Spark are."""
    _, expected = said("spark")
    assert play("spark", dsn, TIMEOUT_S) == expected


@pytest.mark.long
def test_revenue_is_in_files_and_in_the_topic_once(
    spark: SparkSession,
    dsn: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A stream with a watermark, restarted: the program compares what it wrote with the sales."""
    pytest.importorskip("jsonschema_rs")
    monkeypatch.setenv("GAPLESS_DSN", dsn)
    program = runpy.run_path(str(EXAMPLES / "spark" / "revenue.py"))
    assert program["main"](tmp_path) == 0, capsys.readouterr().out
    readme = (EXAMPLES / "spark" / "README.md").read_text()
    (printed,) = re.findall(r"^.* minutes over, .*$", readme, re.MULTILINE)
    assert printed in capsys.readouterr().out
