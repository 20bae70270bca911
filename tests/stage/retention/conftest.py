"""A log of small chunks, and what tests of retention do with it again and again."""

from __future__ import annotations

import pytest
from psycopg import Connection

from gapless.log.topics import ensure_topic
from stage.retention.world import World


@pytest.fixture
def world(dsn: str, conn: Connection) -> World:
    ensure_topic(conn, "orders", partitions=2)
    return World(dsn, conn)
