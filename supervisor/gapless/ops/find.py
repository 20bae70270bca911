"""Find the database: the first one that is configured, else the server that gapless starts itself.

The order is that of every command: a DSN in the call, GAPLESS_DSN (or the values file), `dsn` of
the configuration, libpq's own environment; without any, the embedded server's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from gapless.db.connect import complaint_about, is_pooled, opening, share
from gapless.db.schema import agree_on_schema
from gapless.errors import ConfigError
from gapless.settings import Settings, dereference, load

if TYPE_CHECKING:
    from gapless.features.server.server import EmbeddedServer

# The variables that choose a server, a database or a role. PGPASSWORD, PGPASSFILE, PGSSLMODE,
# PGSERVICEFILE, PGAPPNAME … only refine a choice made elsewhere and are often left over.
# DATABASE_URL is not libpq's and usually belongs to another program on the machine.
_CHOOSES_A_SERVER = ("PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE")

# Our share in the embedded server: it runs for as long as this process, and its children, live.
_servers: list[EmbeddedServer] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDatabase:
    """The address of the database; directory: of the embedded server, if it is that one."""

    dsn: str
    directory: Path | None = None


def connect(
    dsn: str | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    autocommit: bool = False,
    schema: str | None = None,
) -> Connection[TupleRow]:
    """Connect to the database that every gapless command would find; a plain psycopg connection.

    The database is the first of these that is set: `dsn`, GAPLESS_DSN, `dsn` of the file `config`
    (and its values.yml), libpq's own environment (PGHOST, PGSERVICE, ...). Without any, it is the
    embedded server's, which is started if need be, and runs at least until this process ends.
    In `with`, the transaction commits at the end, and the connection is closed.
    autocommit: each statement is a transaction of its own, except in `conn.transaction()`.
    schema: the one that gapless is installed in; None: that of GAPLESS_SCHEMA or the file, else
    gapless. It holds for the process, so also for publish() on other connections.
    Raises, each with one line: ConfigError for a DSN, a schema or a file that cannot be read, or
    for another schema than the one in which this process already works; ConnectError
    when the database refuses, UnreachableError (a ConnectError) when it cannot be reached now.
    """
    path = None if config is None else Path(config)
    loaded = load(path, environ=os.environ, overrides={"dsn": dsn, "schema": schema})
    settings = loaded.settings
    if loaded.sources["schema"] != "default":
        agree_on_schema(settings.schema, loaded.sources["schema"])
    found = find(settings)
    make = partial(
        psycopg.connect,
        found.dsn,
        autocommit=True,
        connect_timeout=settings.connect_timeout_s,
        fallback_application_name="gapless",
    )
    with opening(found.dsn, make) as conn:
        if is_pooled(conn):
            share(conn)
    conn.autocommit = autocommit
    return conn


def find(settings: Settings) -> FoundDatabase:
    """Return the address of the database; start the embedded server if none is configured."""
    dsn = configured_dsn(settings)
    return embedded_database() if dsn is None else FoundDatabase(dsn=dsn)


def configured_dsn(settings: Settings, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the configured DSN; "" is libpq's environment, None means that there is none.

    gapless never parses a DSN: an empty one already makes libpq read PGHOST, PGSERVICE, the service
    file, the password file and the rest. `env:NAME` and `file:/path` refer to one. Raises
    ConfigError for one that cannot be found, or that libpq cannot read.
    """
    if not settings.dsn and not any(environ.get(name) for name in _CHOOSES_A_SERVER):
        return None
    dsn = dereference(settings.dsn or "")
    complaint = complaint_about(dsn)
    if complaint is not None:
        raise ConfigError(complaint)
    return dsn


def embedded_database() -> FoundDatabase:
    """Start or join the embedded server; it runs at least until this process ends."""
    if not _servers:
        from gapless.features.server.server import acquire  # noqa: PLC0415 - only where none is set

        _servers.append(acquire())
    return FoundDatabase(dsn=_servers[0].dsn, directory=_servers[0].directory)
