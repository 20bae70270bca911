"""Bulk reads as Arrow: one ADBC session in each Python worker of an executor, kept between tasks.

To connect takes ADBC ten times as long as psycopg (it loads the catalogue of types), and Spark uses
its Python workers again: so the session is kept, dropped on any error, and ends with the worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gapless.errors import ConnectError, GaplessError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_kept: dict[str, Any] = {}

# Compiling a query takes longer than running it; a lost network must not hang a task for ever.
_OPTIONS = "-c jit=off -c default_transaction_read_only=on"
_SESSION: dict[str, Any] = {
    "application_name": "gapless/spark task",
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 30000,
}


def fetch_arrow(dsn: str, statement: sql.Composed) -> pa.Table:
    """Run a query that changes nothing and return its result; a kept session that broke is renewed.

    Raises ConnectError when the database cannot be reached from here, GaplessError when it refuses.
    """
    text = statement.as_string(None)
    try:
        is_kept = dsn in _kept
        try:
            return _run(dsn, text)
        except _errors():
            if not is_kept:
                raise
        return _run(dsn, text)  # the session may have been cut while no task used it
    except _errors() as error:
        line = " ".join(str(error).split())
        raise GaplessError(f"the database refused a read: {line[:500]}") from error


def render(text: str, params: Mapping[str, object]) -> sql.Composed:
    """Write the parameters of a named query into it: COPY, which ADBC reads by, takes none."""
    parts: list[sql.Composable] = []
    rest = text
    while "%(" in rest:
        before, _, rest = rest.partition("%(")
        name, _, rest = rest.partition(")s")
        parts += [sql.SQL(_ours(before)), sql.Literal(params[name])]
    return sql.Composed([*parts, sql.SQL(_ours(rest))])


def close() -> None:
    """End the sessions of this process."""
    while _kept:
        _kept.popitem()[1].close()


def _run(dsn: str, text: str) -> pa.Table:
    session = _kept.pop(dsn, None) or _open(dsn)
    try:
        with session.cursor() as cursor:
            cursor.execute(text)
            found = cursor.fetch_arrow_table()
    except BaseException:
        session.close()
        raise
    _kept[dsn] = session
    return found


def _open(dsn: str) -> Any:
    try:
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415 - only where tasks run
    except ImportError as error:
        raise UsageError(
            f"{error.name} is missing where Spark's tasks run: pip install gapless[spark] there"
        ) from error
    try:
        own = conninfo_to_dict(dsn).get("options") or ""
        conninfo = make_conninfo(dsn, **_SESSION, options=f"{own} {_OPTIONS}".strip())
        return dbapi.connect(conninfo, autocommit=True)
    except _errors() as error:
        line = " ".join(str(error).split())
        raise ConnectError(f"a Spark task cannot reach the database: {line[:300]}") from error


def _errors() -> type[Exception]:
    from adbc_driver_manager import Error  # noqa: PLC0415 - only where tasks run

    return Error


def _ours(text: str) -> LiteralString:
    """Take a part of a named query for a literal: no input is in it."""
    return text.replace("%%", "%")
