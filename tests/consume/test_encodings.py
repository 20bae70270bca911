"""Where the database, or PGCLIENTENCODING, says another encoding than that of JSON."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo

from gapless.consume.unit import Unit
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.log.event import NewEvent
from gapless.log.sequence import create_chunks
from support.world import World, make_handler


@pytest.fixture(params=["UTF8", "SQL_ASCII"])
def world(
    request: pytest.FixtureRequest, server_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """A topic in a database of that encoding; clients are told to use another."""
    name = f"gapless_test_{uuid4().hex[:12]}"
    create = sql.SQL("create database {} template template0 locale 'C' encoding {}")
    drop = sql.SQL("drop database {} with (force)").format(sql.Identifier(name))
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(create.format(sql.Identifier(name), request.param))
        try:
            dsn = make_conninfo(server_dsn, dbname=name)
            with connect(dsn, role="test") as conn:
                migrate(conn)
                create_chunks(conn)
                yield World.make(dsn, conn)
        finally:
            admin.execute(drop)


def test_events_arrive_as_they_were_published(world: World) -> None:
    payload, key = {"name": "Jörg 'ß'"}, "schlüssel"
    world.events([NewEvent(payload=payload, key=key, headers={"é": "à"})] * 3)
    seen: list[tuple[Any, ...]] = []

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        seen.extend((event.payload, event.key, event.headers) for event in unit)

    group = world.group()
    with group.conn:
        group.drain(make_handler(handle))
    assert seen == [(payload, key, {"é": "à"})] * 3
