"""A topic with 4 partitions and its players for each test."""

import pytest
from psycopg import Connection

from gapless.log.topics import ensure_topic
from partitions.players import Players


@pytest.fixture
def players(conn: Connection) -> Players:
    made = Players(conn)
    ensure_topic(conn, "other", partitions=3)  # what is done to one is done to it alone
    return made
