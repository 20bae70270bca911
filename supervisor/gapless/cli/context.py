"""The settings, the DSN and the connection of a command.

The DSN is the first of these that is set: --dsn, GAPLESS_DSN, `dsn` of the configuration, libpq's
own environment; without any, the embedded server's.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gapless.cli.screen import remark
from gapless.db.connect import connect, connect_shared
from gapless.db.migrate import require_schema
from gapless.db.schema import schema, use_schema
from gapless.ops.find import configured_dsn, find
from gapless.settings import load
from gapless.settings.schema import DEFAULT_SCHEMA

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.errors import InsufficientPrivilege

    from gapless.settings import Loaded, Settings

_NO_FLAGS: Mapping[str, object] = MappingProxyType({})

# Role and database of the newest connection, for errors that escape: by then it may be closed.
_newest: list[str] = []

_told_of: set[Path] = set()  # embedded servers that were named on the screen


def load_all(args: argparse.Namespace, flags: Mapping[str, object] = _NO_FLAGS) -> Loaded:
    """Load the settings: flags, then environment, files and defaults; warnings go to stderr."""
    loaded = load(
        args.config,
        values=args.values,
        environ=os.environ,
        overrides={"dsn": args.dsn, "schema": args.schema, **flags},
    )
    _work_in(loaded.settings.schema)
    for warning in loaded.warnings:
        remark(f"warning: {warning}")
    return loaded


def _work_in(schema: str) -> None:
    """Make this process work in a schema, and all that a handler, the demo or Spark starts."""
    use_schema(schema)
    if os.environ.get("GAPLESS_SCHEMA", DEFAULT_SCHEMA) != schema:
        os.environ["GAPLESS_SCHEMA"] = schema


def flags_of(args: argparse.Namespace, *names: str) -> dict[str, object]:
    """Return the arguments of these names that were given; each is a setting of that name."""
    said = {name: getattr(args, name) for name in names}
    return {name: value for name, value in said.items() if value is not None}


def load_settings(args: argparse.Namespace, flags: Mapping[str, object] = _NO_FLAGS) -> Settings:
    """Load the settings, and return only their values."""
    return load_all(args, flags).settings


def said_dsn(args: argparse.Namespace, settings: Settings | None = None) -> str | None:
    """Return the configured DSN; "" is libpq's environment, None means that there is none."""
    return configured_dsn(settings or load_settings(args))


def server_dsn(args: argparse.Namespace, settings: Settings | None = None) -> str:
    """Return the DSN to use; without one, start the embedded server while this process lives."""
    found = find(settings or load_settings(args))
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
    args: argparse.Namespace,
    role: str,
    settings: Settings | None = None,
    *,
    needs_schema: bool = True,
    needs_session: bool = False,
) -> Connection[Any]:
    """Connect in autocommit; use it in `with`. Requires the schema unless told otherwise.

    needs_session: for commands that lock or listen; a pooler in transaction mode suits the others.
    """
    settings = settings or load_settings(args)
    dsn = server_dsn(args, settings)
    # After Ctrl-C psycopg warns that it cannot roll back; the connection is closed anyway.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    open_ = connect if needs_session else connect_shared
    conn = open_(dsn, role=role, connect_timeout_s=settings.connect_timeout_s)
    _newest[:] = [f'role "{conn.info.user}" in database "{conn.info.dbname}"']
    if needs_schema:
        require_schema(conn)
    return conn


def tell_unsequenced(conn: Connection[Any]) -> None:
    """Warn on stderr if events wait for an offset and no session gives them one."""
    from gapless.status.unsequenced import find_unsequenced  # noqa: PLC0415 - few commands need it

    waits = find_unsequenced(conn)
    if waits is not None:
        remark(waits)


def where() -> str:
    """Name role and database of the newest connection: `role "x" in database "y"`."""
    return _newest[-1] if _newest else "this role"


def needs_owner(error: InsufficientPrivilege) -> str:
    """Say that only the owner of the schema may do it or, before there is one, of the database."""
    return (
        f"{where()}: {error.diag.message_primary}: do this as the role that owns the schema "
        f"{schema()}, or the database where there is none yet"
    )
