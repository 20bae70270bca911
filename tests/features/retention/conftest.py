"""A log of small chunks, and what tests of retention do with it again and again."""

import pytest
from psycopg import Connection

from features.retention.world import World
from gapless.log.topics import ensure_topic


@pytest.fixture
def world(dsn: str, conn: Connection) -> World:
    ensure_topic(conn, "orders", partitions=2)
    return World(dsn, conn)
