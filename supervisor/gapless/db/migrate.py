"""Install and upgrade the schema.

The baseline (tables) and the migrations after it run once, in the order of their numbers;
functions, views and roles are applied again whenever their file has changed, in the order of their
names, the core's first; their folders are only for readers. Files of one name in `parts` folders
are one view: the rows of each, so that a room adds its own without being named by another.
All happens in one transaction that locks the table of applied files, so two that start at once run
one after the other, and one that is killed leaves nothing behind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic, sleep
from typing import LiteralString

import psycopg
from psycopg import ClientCursor, Connection, sql

from gapless.db.hidden import require_rows
from gapless.db.lock_facts import locks
from gapless.db.queries import query, sql_files
from gapless.db.schema import here, init_command, schema, schema_words
from gapless.errors import SchemaError

_ENCODINGS = ("UTF8", "SQL_ASCII")
_BEGINNING = ("create_schema", "lock_migrations", "prepare_migrations")  # of the transaction
# From the weakest to the strongest; the names in pg_locks, and in LOCK.
_MODES: dict[str, LiteralString] = {
    "ShareLock": "share",
    "ShareRowExclusiveLock": "share row exclusive",
    "ExclusiveLock": "exclusive",
    "AccessExclusiveLock": "access exclusive",
}
# In the order of programs: a run of the sequencer, a batch and publish() already hold others when
# they come to the log. A waiter for one of these holds none behind it, for which we would wait.
_IN_ORDER = (
    "sequencer", "consumer_offsets", "topic", "consumer_group", "member", "lease",
    "outbox_message_t",
)  # fmt: skip
_LOCK_TIMEOUT = {"timeout": "300ms"}  # the server looks for a deadlock after 1 s
_PAUSE_S = 0.2
_PATIENCE_S = 60
_ONCE = ("tables", "migrations")
_PARTS = "parts"
_REPEATABLE = ("functions", "views", _PARTS, "roles")

Told = Callable[[int, int], None]
_BEGIN_ANEW = (
    "save its events with psql and gapless.read(), then gapless uninstall, gapless init, "
    "and gapless publish TOPIC --file FILE (docs/run/operations.md, Earlier checkouts)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """One file that was applied: its folder, its name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    kind: str
    name: str
    source: str
    digest: str  # of the source: it is the same in each schema


def migrate(conn: Connection, *, tell: Told = lambda *_: None) -> list[SchemaChange]:
    """Bring the schema up to this program; return the changes, an empty list if there were none.

    Before: `conn` is in autocommit, outside a transaction. Again: safe to repeat. tell: is called
    with the number of files applied so far, and of all; the last of them commits.
    Raises SchemaError when another gapless made the database, the schema holds foreign objects, or
    the database cannot store every text.
    """
    if not _due(conn):
        return []
    give_up_s = monotonic() + _PATIENCE_S
    while True:
        try:
            changes = _migrate(conn, tell)
            return [SchemaChange(kind=file.kind, name=file.name) for file in changes]
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
            continue  # another session has just created the schema
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            if monotonic() > give_up_s:
                raise SchemaError(
                    f"tables of {schema_words()} have been in use for {_PATIENCE_S} s: nothing was "
                    "changed; run it again when no transaction is open for long"
                ) from error
            sleep(_PAUSE_S)  # let the sessions pass that waited behind us


def _migrate(conn: Connection, tell: Told) -> list[_File]:
    with conn.transaction():
        _refuse_encoding(conn)
        refuse_stranger(conn)
        for name in _BEGINNING:
            conn.execute(query("schema", name))
        changes = _pending(_applied(conn))
        _lock(conn, changes)
        for number, file in enumerate(changes):
            tell(number, len(changes))
            _apply(conn, file)
    return changes


def _lock(conn: Connection, changes: list[_File]) -> None:
    """Take the locks of the files before anything is done: publishers wait for a moment.

    No wait for a lock is long enough for a deadlock to be detected: of a publisher and us, waiting
    for each other, the publisher might be the one that fails. Raises LockNotAvailable.
    """
    conn.execute(query("connect", "local_lock_timeout"), _LOCK_TIMEOUT)
    for statement in _lock_statements(conn, changes):
        conn.execute(statement)


def _lock_statements(conn: Connection, changes: list[_File]) -> Iterator[sql.Composed]:
    """Yield a LOCK for each existing table that the files lock."""
    for table, mode in _strongest(changes).items():
        if conn.execute(query("schema", "has_table"), {"table": table}).fetchone() == (True,):
            name = sql.Identifier(schema(), table)
            yield sql.SQL("lock table {} in {} mode").format(name, sql.SQL(_MODES[mode]))


def _strongest(changes: list[_File]) -> dict[str, str]:
    """Return the tables that files lock, and each one's strongest lock, in the order to lock."""
    found: dict[str, str] = {}
    for file in changes:
        for table, fact in locks().get(f"{file.kind}/{file.name}", {}).items():
            if fact["mode"] in _MODES:
                has = found.get(table, fact["mode"])
                found[table] = max(has, fact["mode"], key=list(_MODES).index)
    place = {table: number for number, table in enumerate(_IN_ORDER)}
    return dict(sorted(found.items(), key=lambda each: (place.get(each[0], len(place)), each[0])))


def refuse_stranger(conn: Connection) -> None:
    """Raise SchemaError for a schema that is not empty, and not one of ours."""
    row = conn.execute(query("schema", "standing")).fetchone()
    is_ours, is_empty = row or (False, True)
    if not is_ours and not is_empty:
        raise SchemaError(
            f'schema {schema()} in database "{conn.info.dbname}" holds objects of other programs: '
            "say --schema with a name that nothing else uses"
        )


def _due(conn: Connection) -> list[_File]:
    """Return the files to apply, without a lock."""
    refuse_stranger(conn)
    try:
        return _pending(_applied(conn))
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return _pending({})


def pending(conn: Connection) -> list[SchemaChange]:
    """Return the changes that migrate() would make, in its order; change nothing, never wait.

    Raises SchemaError as migrate() does, but not for an encoding.
    """
    return [SchemaChange(kind=file.kind, name=file.name) for file in _due(conn)]


def newest(conn: Connection) -> str | None:
    """Return the latest migration that a database has, or `baseline`; None: it has no schema."""
    try:
        applied = _applied(conn)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None
    return max((name for kind, name in applied if kind == "migrations"), default="baseline")


def script(conn: Connection) -> str:
    """Return the SQL of migrate() as one transaction for psql; "" when there is none."""
    changes = _due(conn)
    if not changes:
        return ""
    literal = ClientCursor(conn)
    parts = ["begin", *(query("schema", name) for name in _BEGINNING)]
    parts.append(literal.mogrify(query("connect", "local_lock_timeout"), _LOCK_TIMEOUT))
    # As migrate() does; psql does not try again, so the person who runs it has to.
    parts += [each.as_string(conn) for each in _lock_statements(conn, changes)]
    for file in changes:
        parts += [here(file.source), literal.mogrify(query("schema", "record"), _record(file))]
    return "".join(f"{part.strip().removesuffix(';')};\n\n" for part in [*parts, "commit"])


def require_schema(conn: Connection) -> None:
    """Raise SchemaError unless the database has exactly the migrations this program knows.

    Raises HiddenError where row security keeps this role from seeing its contents.
    """
    try:
        require_rows(conn)
        applied = _applied(conn)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
        raise SchemaError(
            f'database "{conn.info.dbname}" has no {schema_words()}: run {init_command()}'
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise SchemaError(
            f'role "{conn.info.user}" may not use schema {schema()} in database '
            f'"{conn.info.dbname}": grant it gapless_consumer or gapless_producer'
        ) from error
    files = _files()
    _refuse_other(files, applied)
    stale = [file.name for file in files if _is_new(file, applied)]
    if stale:
        raise SchemaError(
            f'the {schema_words()} in database "{conn.info.dbname}" is older than this program '
            f"({stale[0]} is missing or changed): run {init_command()}"
        )


def _files() -> list[_File]:
    return [file for kind in (*_ONCE, *_REPEATABLE) for file in _read(kind)]


def _read(kind: str) -> Iterator[_File]:
    texts: dict[str, list[str]] = {}
    for file in sql_files(kind):
        texts.setdefault(file.name.removesuffix(".sql"), []).append(file.read_text())
    for name, found in texts.items():
        makes = f"create or replace view gapless.{name} as\n" if kind == _PARTS else ""
        source = makes + "union all\n".join(found)
        digest = hashlib.sha256(source.encode()).hexdigest()
        yield _File(
            kind="views" if kind == _PARTS else kind, name=name, source=source, digest=digest
        )


def _applied(conn: Connection) -> dict[tuple[str, str], str]:
    rows = conn.execute(query("schema", "applied")).fetchall()
    return {(kind, name): digest for kind, name, digest in rows}


def _is_new(file: _File, applied: dict[tuple[str, str], str]) -> bool:
    digest = applied.get((file.kind, file.name))
    if file.kind not in _ONCE or digest is None:
        return digest != file.digest
    if digest != file.digest:
        raise SchemaError(
            f"{file.kind}/{file.name} is in the database in another form: "
            "this program and the one that installed it do not belong together: use that one, or "
            f"{_BEGIN_ANEW}"
        )
    return False


def _pending(applied: dict[tuple[str, str], str]) -> list[_File]:
    files = _files()
    _refuse_other(files, applied)
    changes = [file for file in files if _is_new(file, applied)]
    if changes:  # new objects need their grants too
        changes = [file for file in changes if file.kind != "roles"]
        changes += [file for file in files if file.kind == "roles"]
    return changes


def _refuse_other(files: list[_File], applied: dict[tuple[str, str], str]) -> None:
    """Raise SchemaError for a schema that another program made, an earlier or a newer one."""
    if applied and not any(kind == "tables" for kind, _ in applied):
        raise SchemaError(
            f"the {schema_words()} was made by a checkout of before 0.1.0, and is not upgraded: "
            f"{_BEGIN_ANEW}"
        )
    known = {(file.kind, file.name) for file in files}
    unknown = sorted(n for kind, n in applied if kind in _ONCE and (kind, n) not in known)
    if unknown:
        raise SchemaError(
            f"the {schema_words()} is newer than this program (it has {unknown[-1]}): "
            "upgrade gapless"
        )


def _refuse_encoding(conn: Connection) -> None:
    encoding = conn.info.parameter_status("server_encoding")
    if encoding not in _ENCODINGS:
        raise SchemaError(
            f'database "{conn.info.dbname}" has encoding {encoding}, which lacks most characters: '
            "make one with createdb --encoding UTF8 --template template0 NAME"
        )


def _apply(conn: Connection, file: _File) -> None:
    # Without parameters psycopg sends the text as it is: a file may hold many statements.
    conn.execute(here(file.source))
    conn.execute(query("schema", "record"), _record(file))


def _record(file: _File) -> dict[str, str]:
    return {"kind": file.kind, "name": file.name, "digest": file.digest}
