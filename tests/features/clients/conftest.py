"""Clients of an ordered group of one partition, or of four."""

import pytest
from psycopg import Connection

from features.clients.calls import GROUP, Clients, clients
from gapless.log.topics import ensure_topic

__all__ = ["clients", "wide"]


@pytest.fixture
def wide(conn: Connection) -> Clients:
    """The same with four partitions."""
    topic = ensure_topic(conn, "orders", partitions=4)
    conn.execute("select gapless.create_group(%s, 'orders')", [GROUP])
    return Clients(conn, topic)
