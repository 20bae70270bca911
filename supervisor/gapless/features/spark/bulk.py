"""Bulk reads as Arrow: one ADBC session in each Python worker of an executor, kept between tasks.

ADBC takes ten times as long to connect as psycopg (it loads the catalogue of types), and Spark uses
its Python workers again: so the session is kept, dropped on any error, and ends with the worker.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gapless.db.connect import is_transient
from gapless.db.queries import query
from gapless.db.schema import schema
from gapless.errors import ConnectError, GaplessError, UsageError
from gapless.features.spark.reach import require_same_database
from gapless.features.spark.tries import CutError, with_remedy

if TYPE_CHECKING:
    import pyarrow as pa

_kept: dict[tuple[str, str | None], Any] = {}  # by DSN and proven identity

BATCH_BYTES = 8 << 20
_BATCH = "adbc.postgresql.batch_size_hint_bytes"

# Tasks already run in parallel, and compiling a query takes longer than running it; a lost network
# must not hang a task forever.
_OPTIONS = "-c jit=off -c max_parallel_workers_per_gather=0 -c default_transaction_read_only=on"
_SESSION: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 30000,
}


def fetch_arrow(dsn: str, statement: sql.Composed, identity: str | None = None) -> pa.Table:
    """Run a query that changes nothing and return its result; a broken session is kept no longer.

    identity: the expected database (reach.py); None: any database.

    Raises ConnectError when the database cannot be reached from here, CutError when it was reached
    and ended the read, GaplessError when it refuses, or is another one.
    """
    with _reading(dsn, statement, identity) as reader:
        return reader.read_all()


def stream_arrow(
    dsn: str, statement: sql.Composed, identity: str | None = None
) -> Generator[pa.RecordBatch]:
    """Yield the result of such a query in batches of about BATCH_BYTES, as the server sends it.

    If closed early, it ends the session. Raises the errors of fetch_arrow.
    """
    with _reading(dsn, statement, identity) as reader:
        yield from reader


def render(text: str, params: Mapping[str, object]) -> sql.Composed:
    """Write the parameters of a named query into it: COPY, which ADBC uses, takes none."""
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


@contextmanager
def _reading(
    dsn: str, statement: sql.Composed, identity: str | None
) -> Iterator[pa.RecordBatchReader]:
    where = (dsn, identity)
    text = statement.as_string(None)
    try:
        session, cursor = _begin(where, text)
        try:
            yield cursor.fetch_record_batch()
            cursor.close()
        except BaseException:
            session.close()
            raise
    except _errors() as error:
        line = " ".join(str(error).split())
        kind = CutError if _was_cut(error) else GaplessError
        raise kind(with_remedy(f"the database refused a read: {line[:500]}")) from error
    if (other := _kept.pop(where, None)) is not None:
        other.close()
    _kept[where] = session


def _begin(where: tuple[str, str | None], text: str) -> tuple[Any, Any]:
    """Execute in the kept session, or in a new one if none is kept.

    One that broke while it was idle is a read that was cut: the next session may be another
    server's, of which nothing is known (Tries).
    """
    session = _kept.pop(where, None)
    if session is None:
        session = _open(*where)
    return session, _execute(session, text)


def _execute(session: Any, text: str) -> Any:
    try:
        cursor = session.cursor()
        cursor.adbc_statement.set_options(**{_BATCH: str(BATCH_BYTES)})
        cursor.execute(text)
    except BaseException:
        session.close()
        raise
    return cursor


def _open(dsn: str, identity: str | None) -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        raise UsageError(
            f"{error.name} is missing where Spark's tasks run: pip install gapless[spark] there"
        ) from error
    try:
        own = conninfo_to_dict(dsn).get("options") or ""
        options = f"{own} {_OPTIONS}".strip()
        name = f"{schema()}/spark task"
        conninfo = make_conninfo(dsn, **_SESSION, application_name=name, options=options)
        session = dbapi.connect(conninfo, autocommit=True)
    except _errors() as error:
        line = " ".join(str(error).split())
        raise ConnectError(f"a Spark task cannot reach the database: {line[:300]}") from error
    if identity is not None:
        _prove(session, dsn, identity)
    return session


def _prove(session: Any, dsn: str, identity: str) -> None:
    """Close the session and raise GaplessError unless it reached the driver's database."""
    try:
        cursor = _execute(session, query("spark", "database_identity"))
        (found,) = cursor.fetchone()
        cursor.close()
        require_same_database(dsn, identity, found)
    except BaseException:
        session.close()
        raise


def _errors() -> tuple[type[Exception], ...]:
    """Return the errors that ADBC raises; in the middle of a result, pyarrow raises them."""
    from adbc_driver_manager import Error
    from pyarrow import ArrowException

    return Error, ArrowException, OSError


def _was_cut(error: Exception) -> bool:
    """Tell whether a read may succeed when it is done again.

    In the middle of a result there is no SQLSTATE: any error of then may pass, but a cancellation
    by a person or a limit.
    """
    from adbc_driver_manager import Error

    if _is_cancelled(error):
        return False
    if not isinstance(error, Error) or error.sqlstate is None:
        return True
    try:
        return is_transient(psycopg.errors.lookup(error.sqlstate)())
    except KeyError:  # one that psycopg does not know
        return False


def _is_cancelled(error: Exception) -> bool:
    said = str(error)
    return "due to user request" in said or "due to statement timeout" in said


def _ours(text: str) -> LiteralString:
    """Treat a part of a named query as a literal: it contains no input."""
    return text.replace("%%", "%")
