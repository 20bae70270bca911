"""A database for installations, and installations in it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from db.app import MAKE
from db.installation import Installation


@pytest.fixture
def installation(empty_dsn: str, tmp_path: Path) -> Iterator[Callable[[str], Installation]]:
    """Make installations, in one database that has none yet; nothing of them is left running."""
    made: list[Installation] = []
    with psycopg.connect(empty_dsn, autocommit=True) as conn:
        conn.execute(MAKE)

        def make(schema: str) -> Installation:
            made.append(Installation(empty_dsn, conn, schema, tmp_path))
            return made[-1]

        try:
            yield make
        finally:
            for each in made:
                each.close()
