"""The step is tested through a `world` (topic, log, effects) and a `group` that works on it."""

from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.world import Group, World


@pytest.fixture(scope="module")
def shared_world(module_dsn: str) -> Iterator[World]:
    """Yield one database with a session for a module; each test takes `another_topic()`."""
    with connect(module_dsn, role="test") as conn:
        yield World.make(module_dsn, conn)


@pytest.fixture
def world(dsn: str, conn: Connection[Any]) -> World:
    """Return one topic with a single partition."""
    return World.make(dsn, conn)


@pytest.fixture
def group(world: World) -> Iterator[Group]:
    """Yield a group that owns the partition."""
    made = world.group()
    yield made
    made.conn.close()
