"""The step is tested through a `world` (topic, log, effects) and a `group` that works on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from stage.consume.world import Group, World


@pytest.fixture(scope="module")
def shared_world(server_dsn: str, template: str) -> Iterator[World]:
    """One database for a whole module, with a session; its tests take `another_topic()` each."""
    name = f"gapless_test_{uuid4().hex[:12]}"
    identifier = sql.Identifier(name)
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(
            sql.SQL("create database {} template {}").format(identifier, sql.Identifier(template))
        )
        dsn = make_conninfo(server_dsn, dbname=name)
        with connect(dsn, role="test") as conn:
            yield World.make(dsn, conn)
        admin.execute(sql.SQL("drop database {} with (force)").format(identifier))


@pytest.fixture
def world(dsn: str, conn: Connection[Any]) -> World:
    """One topic with a single partition."""
    return World.make(dsn, conn)


@pytest.fixture
def group(world: World) -> Iterator[Group]:
    """A group that owns the partition."""
    made = world.group()
    yield made
    made.conn.close()
