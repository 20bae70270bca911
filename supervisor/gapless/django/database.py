"""The database of Django that has the log: its DSN, and the schema of gapless in it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import connections
from psycopg import pq
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect_shared
from gapless.db.schema import agree_on_schema, schema
from gapless.ops.install import install_schema
from gapless.settings import environment_schema

_OWN = frozenset({"client_encoding"})  # gapless sets these itself


def alias() -> str:
    """Return the alias of the database that has the log: GAPLESS_DATABASE, or "default"."""
    return str(getattr(settings, "GAPLESS_DATABASE", "default"))


def table(name: str) -> str:
    """Return a table of gapless as Django names it, in the schema of GAPLESS_SCHEMA.

    It is that of Django's setting, else of the environment; two that differ are a ConfigError.
    """
    said = getattr(settings, "GAPLESS_SCHEMA", None)
    if said is not None:
        named = environment_schema({"GAPLESS_SCHEMA": said})
        agree_on_schema(named, "Django's GAPLESS_SCHEMA")
    return f'"{schema()}"."{name}"'


def dsn(using: str | None = None) -> str:
    """Return the DSN of one of Django's databases; within tests, of the test database."""
    params: dict[str, Any] = connections[using or alias()].get_connection_params()
    known = {each.keyword.decode() for each in pq.Conninfo.get_defaults()} - _OWN
    return make_conninfo(**{name: value for name, value in params.items() if name in known})


def install(using: str) -> None:
    """Install or upgrade the schema, if this is the database that has the log."""
    if using == alias() and connections[using].vendor == "postgresql":
        with connect_shared(dsn(using), role="django") as conn:
            install_schema(conn)
