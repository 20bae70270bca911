"""Compaction is tested through a topic that is compacted, by hand, and groups that begin with its latest events."""

from typing import Any

import pytest
from psycopg import Connection

from features.compaction.kept import Kept
from support.chunks import small_chunks
from support.world import World


@pytest.fixture
def world(dsn: str, conn: Connection[Any]) -> World:
    """One topic with a single partition, in a log of small chunks."""
    small_chunks(conn)
    return World.make(dsn, conn)


@pytest.fixture
def kept(world: World) -> Kept:
    """The topic, compacted."""
    world.value("select gapless.set_compaction(%s, true)", world.topic.name)
    return Kept(world)
