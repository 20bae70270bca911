"""A fleet of supervisors for each test; afterwards the invariants of leases are checked."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg import Connection

from support.fleet import Fleet
from support.lease_checks import assert_sound, record


@pytest.fixture
def fleet(dsn: str, conn: Connection, tmp_path: Path) -> Iterator[Fleet]:
    record(conn)
    made = Fleet(dsn, conn, tmp_path)
    try:
        yield made
    finally:
        made.close()
        print(made.logs())  # noqa: T201 - pytest shows it if the test failed
    made.open_door()
    assert_sound(dsn, by_hand=False)
