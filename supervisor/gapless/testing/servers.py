"""A PostgreSQL server for a run of tests, and databases on it that are created quickly."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from gapless.testing.install import install

_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of its own in it
_MEMORY_BYTES_MIN = 2 << 30
_OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "autovacuum": "off",
    "max_connections": "200",
}


@contextmanager
def server() -> Iterator[str]:
    """Yield a superuser's DSN: of GAPLESS_TEST_DSN, else of a server removed afterwards."""
    dsn = os.environ.get("GAPLESS_TEST_DSN")
    if dsn:
        yield dsn
        return
    from gapless.features.server.server import embedded  # noqa: PLC0415 - only where one is started

    with embedded(_fast_folder(), throwaway=True, options=_OPTIONS) as started:
        yield started


@contextmanager
def template(server_dsn: str) -> Iterator[str]:
    """Yield the name of a template database with the schema; it is dropped afterwards."""
    with _new_database(server_dsn, "template1") as name:
        install(make_conninfo(server_dsn, dbname=name))
        yield name


@contextmanager
def database(
    server_dsn: str, template: str, topics: Mapping[str, int] | None = None
) -> Iterator[str]:
    """Yield the DSN of a new database with the schema and topics; it is dropped afterwards."""
    with _new_database(server_dsn, template) as name:
        dsn = make_conninfo(server_dsn, dbname=name)
        if topics:
            install(dsn, topics=topics)
        yield dsn


@contextmanager
def _new_database(server_dsn: str, template: str) -> Iterator[str]:
    name = f"gapless_{os.getpid()}_{uuid4().hex[:12]}"
    made = {"name": sql.Identifier(name), "template": sql.Identifier(template)}
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {name} template {template}").format(**made))
        try:
            yield name
        finally:
            admin.execute(sql.SQL("drop database if exists {name} with (force)").format(**made))


def _fast_folder() -> Path | None:
    """Return a folder in memory: a database takes 0.03 s there, on a busy disk up to 1 s."""
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _MEMORY_BYTES_MIN:
        return None
    return _MEMORY / f"gapless-{uuid4().hex[:12]}"
