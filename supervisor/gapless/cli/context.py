"""What every command needs: the settings, the DSN, a connection.

The DSN is the first of these that is said: --dsn, GAPLESS_DSN, `dsn` of the configuration, libpq's
own environment; without any, the embedded server's.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gapless.cli.screen import note

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.errors import InsufficientPrivilege

    from gapless.db.embedded.server import EmbeddedServer
    from gapless.settings import Loaded, Settings

_NO_FLAGS: Mapping[str, object] = MappingProxyType({})

# Who connected to what last, for the message of an error that escapes: by then it may be closed.
_newest: list[str] = []

# Our share in the embedded server: it runs for as long as this process, and its children, live.
_servers: list[EmbeddedServer] = []


def load(args: argparse.Namespace, flags: Mapping[str, object] = _NO_FLAGS) -> Loaded:
    """Load the settings: flags, then environment, files and defaults; warnings go to stderr."""
    from gapless.settings import load as load_all  # noqa: PLC0415 - not for --help

    loaded = load_all(
        args.config,
        values=args.values,
        environ=os.environ,
        overrides={"dsn": args.dsn, **flags},
    )
    for warning in loaded.warnings:
        note(f"warning: {warning}")
    return loaded


def load_settings(args: argparse.Namespace, flags: Mapping[str, object] = _NO_FLAGS) -> Settings:
    """Load the settings, of which only the values matter."""
    return load(args, flags).settings


def configured_dsn(args: argparse.Namespace, settings: Settings | None = None) -> str | None:
    """Return the DSN that was said somewhere; "" is libpq's environment, None is nowhere."""
    from gapless.settings import dsn_is_configured  # noqa: PLC0415 - not for --help

    dsn = (settings or load_settings(args)).dsn
    if not dsn_is_configured(os.environ, dsn):
        return None
    _refuse_nonsense(dsn or "")
    return dsn or ""


def server_dsn(args: argparse.Namespace, settings: Settings | None = None) -> str:
    """Return the DSN to use; without one, start the embedded server for as long as we live."""
    dsn = configured_dsn(args, settings)
    return _embedded_dsn() if dsn is None else dsn


def open_connection(
    args: argparse.Namespace,
    role: str,
    settings: Settings | None = None,
    *,
    needs_schema: bool = True,
) -> Connection[Any]:
    """Connect, in autocommit; use it in `with`. Makes sure of the schema unless told otherwise."""
    from gapless.db.connect import connect  # noqa: PLC0415 - not for --help

    settings = settings or load_settings(args)
    dsn = server_dsn(args, settings)
    # After Ctrl-C psycopg warns that it cannot roll back; the connection is closed anyway.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    conn = connect(dsn, role=role, connect_timeout_s=settings.connect_timeout_s)
    _newest[:] = [f'role "{conn.info.user}" in database "{conn.info.dbname}"']
    if needs_schema:
        from gapless.db.migrate import require_schema  # noqa: PLC0415 - not for --help

        require_schema(conn)
    return conn


def _embedded_dsn() -> str:
    if not _servers:
        from gapless.db.embedded.server import acquire  # noqa: PLC0415 - not for --help

        _servers.append(acquire())
        note(f"no DSN is configured: using the embedded PostgreSQL of {_servers[0].directory}")
    return _servers[0].dsn


def where() -> str:
    """Say who was connected to what last: `role "x" in database "y"`."""
    return _newest[-1] if _newest else "this role"


def needs_owner(error: InsufficientPrivilege) -> str:
    """Say that only the owner may do it: of the schema or, before there is one, the database."""
    return (
        f"{where()}: {error.diag.message_primary}: do this as the role that owns the schema "
        "gapless, or the database where there is none yet"
    )


def _refuse_nonsense(dsn: str) -> None:
    from gapless.db.connect import complaint_about  # noqa: PLC0415 - not for --help
    from gapless.errors import ConfigError  # noqa: PLC0415 - not for --help

    complaint = complaint_about(dsn)
    if complaint is not None:
        raise ConfigError(complaint)
