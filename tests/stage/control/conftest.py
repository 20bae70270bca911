"""A topic of two partitions, and what tests of control need: a key for each, a log, a group."""

from __future__ import annotations

import pytest
from psycopg import Connection

from gapless.log.topics import ensure_topic
from stage.control.world import World


@pytest.fixture
def world(dsn: str, conn: Connection) -> World:
    ensure_topic(conn, "orders", partitions=2)
    conn.execute("select gapless.create_group('billing', 'orders')")
    return World(dsn, conn)
