"""A topic with 4 partitions and its players for each test."""

from __future__ import annotations

import pytest
from psycopg import Connection

from stage.partitions.players import Players


@pytest.fixture
def players(conn: Connection) -> Players:
    return Players(conn)
