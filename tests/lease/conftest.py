"""A cast of members and workers for each test; afterwards the invariants are checked."""

from collections.abc import Iterator

import pytest
from psycopg import Connection

from gapless.log.topics import Topic
from support.cast import Cast
from support.lease_checks import assert_sound, record


@pytest.fixture
def cast(dsn: str, conn: Connection, topic: Topic) -> Iterator[Cast]:
    record(conn)
    with Cast(dsn, conn, topic).closing() as made:
        yield made
    assert_sound(dsn, by_hand=True)
