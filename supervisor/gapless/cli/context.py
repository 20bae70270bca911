"""The settings, the DSN and the connection of a command.

The DSN is the first of these that is set: --dsn, GAPLESS_DSN, `dsn` of the configuration, libpq's
own environment; without any, the embedded server's.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapless.cli.screen import remark
from gapless.db.connect import connect, connect_shared
from gapless.db.migrate import require_schema
from gapless.db.schema import schema, use_schema
from gapless.ops.find import find
from gapless.settings import load
from gapless.settings.schema import DEFAULT_SCHEMA

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.errors import InsufficientPrivilege

    from gapless.settings import Loaded, Settings

# Role and database of the newest connection, for errors that escape: by then it may be closed.
_newest: list[str] = []

_told_of: set[Path] = set()  # embedded servers that were named on the screen


def load_all(args: argparse.Namespace, *flags: str) -> Loaded:
    """Load the settings: flags, then environment, files and defaults; warnings go to stderr.

    flags: names of arguments that are settings of that name. This process, and all that a handler,
    the demo or Spark starts, works in the schema of the settings from now on.
    """
    loaded = load(
        args.config,
        values=args.values,
        environ=os.environ,
        overrides={name: getattr(args, name) for name in ("dsn", "schema", *flags)},
    )
    schema = loaded.settings.schema
    use_schema(schema)
    if os.environ.get("GAPLESS_SCHEMA", DEFAULT_SCHEMA) != schema:
        os.environ["GAPLESS_SCHEMA"] = schema
    for warning in loaded.warnings:
        remark(f"warning: {warning}")
    return loaded


def server_dsn(settings: Settings) -> str:
    """Return the DSN to use; without one, start the embedded server while this process lives."""
    found = find(settings)
    if found.directory is not None and found.directory not in _told_of:
        _told_of.add(found.directory)
        if _is_news(found.directory / "told"):
            remark(f"no DSN is configured: using the embedded PostgreSQL of {found.directory}")
    return found.dsn


def _is_news(note: Path) -> bool:
    """Tell whether a remark is new at this terminal, and note it; without a terminal it is new."""
    if not sys.stderr.isatty():
        return True
    session = str(os.getsid(0))
    with suppress(OSError):  # then the remark is repeated
        if note.exists() and note.read_text() == session:
            return False
        note.write_text(session)
    return True


def open_connection(
    settings: Settings,
    role: str,
    *,
    needs_schema: bool = True,
    needs_session: bool = False,
    standby: bool = False,
) -> Connection[Any]:
    """Connect in autocommit; use it in `with`. Requires the schema unless told otherwise.

    needs_session: for commands that lock or listen; a pooler in transaction mode suits the others.
    standby: accept one, too; there a statement that writes is refused.
    """
    dsn = server_dsn(settings)
    # After Ctrl-C psycopg warns that it cannot roll back; the connection is closed anyway.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    open_ = connect if needs_session else connect_shared
    conn = open_(dsn, role=role, connect_timeout_s=settings.connect_timeout_s, standby=standby)
    _newest[:] = [f'role "{conn.info.user}" in database "{conn.info.dbname}"']
    if needs_schema:
        require_schema(conn)
    return conn


def where() -> str:
    """Name role and database of the newest connection: `role "x" in database "y"`."""
    return _newest[-1] if _newest else "this role"


def needs_owner(error: InsufficientPrivilege) -> str:
    """Say that only the owner of the schema may do it or, before there is one, of the database."""
    return (
        f"{where()}: {error.diag.message_primary}: do this as the role that owns the schema "
        f"{schema()}, or the database where there is none yet"
    )
