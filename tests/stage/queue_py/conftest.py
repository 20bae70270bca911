"""Supervisors of queue groups for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from stage.queue_py.supervisors import Runs


@pytest.fixture
def runs(dsn: str, conn: Connection[Any], tmp_path: Path) -> Iterator[Runs]:
    made = Runs(dsn, conn, tmp_path)
    try:
        yield made
    finally:
        made.close()
        print(made.logs())  # noqa: T201 - pytest shows it when the test failed
