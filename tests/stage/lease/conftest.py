"""A cast of members and workers for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg import Connection

from gapless.log.topics import Topic
from stage.lease.cast import Cast


@pytest.fixture
def cast(dsn: str, conn: Connection, topic: Topic) -> Iterator[Cast]:
    with Cast(dsn, conn, topic).closing() as made:
        yield made
