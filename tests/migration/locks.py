"""The locks that each file of sql/ takes on tables that are there, measured by applying it.

`python tests/migration/locks.py` writes them to sql/locks.json, for `gapless init` and its --plan, with the names of
functions that migrations drop for good.
"""

import json
import re
from pathlib import Path
from typing import Any

from psycopg import Connection

from gapless.db.connect import connect
from gapless.db.queries import query, sql_root
from gapless.db.schema import here
from gapless.features.server.server import throwaway_cluster

Facts = dict[str, dict[str, dict[str, str]]]
# Locks that somebody waits for who reads or writes.
_STRONG = ("ShareLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")
# The tables of the schema as they are: what is written anew, what has one index or check more.
_TABLES = """
select t.relname::text,
  array_agg(array[r.oid::text, pg_relation_filenode(r.oid)::text] order by r.oid),
  (select count(*) from pg_index i where i.indrelid = t.oid and i.indisvalid)
  + (select count(*) from pg_constraint c where c.conrelid = t.oid and c.convalidated and c.contype in ('c', 'f'))
from pg_class r join pg_class t on t.oid = coalesce(pg_partition_root(r.oid), r.oid)
where t.relnamespace = 'gapless'::regnamespace and r.relkind in ('r', 'p')
group by t.oid, t.relname
"""
_LOCKS = """
select t.relname::text, l.mode
from pg_locks l join pg_class r on r.oid = l.relation
join pg_class t on t.oid = coalesce(pg_partition_root(r.oid), r.oid)
where l.pid = pg_backend_pid() and l.locktype = 'relation' and l.granted
  and t.relnamespace = 'gapless'::regnamespace and t.relkind in ('r', 'p')
"""
_FUNCTION = re.compile(
    r"create (?:or replace )?function.*?as \$\$.*?\$\$", re.DOTALL | re.IGNORECASE
)
_WRITES = re.compile(r"\b(?:update|delete from) gapless\.(\w+)")
_DROPPED = re.compile(r"drop function (?:if exists )?gapless\.(\w+)", re.IGNORECASE)
_MADE = re.compile(r"create or replace function gapless\.(\w+)", re.IGNORECASE)


def facts(conn: Connection[Any], root: Path) -> dict[str, Any]:
    """Return what locks.json of a folder like sql/ says; `conn`: to a database without the schema."""
    found = facts_of_migrations(conn, root)
    repeatable = [(kind, path) for kind in ("functions", "views") for path in _files(root, kind)]
    for kind, path in repeatable:  # the functions and views that they name are not there yet
        _apply(conn, path, f"{kind}/{path.stem}")
    for kind, path in repeatable:
        found["files"] |= _apply(conn, path, f"{kind}/{path.stem}")
    return found


def facts_of_migrations(conn: Connection[Any], root: Path) -> dict[str, Any]:
    """Return the part of it that is about migrations."""
    conn.execute(query("schema", "create_schema"))
    for path in _files(root, "tables"):
        _apply(conn, path, path.stem)
    migrations, functions = _files(root, "migrations"), _files(root, "functions")
    files: Facts = {}
    for path in migrations:
        files |= _apply(conn, path, f"migrations/{path.stem}")
    dropped = {name for path in migrations for name in _DROPPED.findall(path.read_text())}
    made = {name for path in functions for name in _MADE.findall(path.read_text())}
    return {"files": files, "gone": sorted(dropped - made)}


def write(found: dict[str, Any], root: Path) -> None:
    """Write locks.json of a folder like sql/."""
    (root / "locks.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def _files(root: Path, kind: str) -> list[Path]:
    found = (path for path in root.rglob("*.sql") if kind in path.relative_to(root).parts)
    return sorted(found, key=lambda path: path.stem)


def _apply(conn: Connection[Any], path: Path, name: str) -> Facts:
    text = path.read_text()
    with conn.transaction():
        conn.execute("set local check_function_bodies = off; set local client_min_messages = error")
        before = _tables(conn)
        conn.execute(here(text))
        locks = conn.execute(_LOCKS.encode()).fetchall()
        after = _tables(conn)
    written = set(_WRITES.findall(_FUNCTION.sub("", text)))
    facts: dict[str, dict[str, str]] = {}
    for table, mode in locks:
        if table in before and table in after and mode in _STRONG:
            had = facts.get(table, {}).get("mode", _STRONG[0])
            facts[table] = {"mode": max(had, mode, key=_STRONG.index)}
    for table in sorted({*facts, *(written & before.keys())} & after.keys()):
        fact = facts.setdefault(table, {"mode": "RowExclusiveLock"})
        if before[table][0] != after[table][0] or table in written:
            fact["work"] = "written"
        elif after[table][1] > before[table][1]:
            fact["work"] = "read"
    return {name: {table: facts[table] for table in sorted(facts)}} if facts else {}


def _tables(conn: Connection[Any]) -> dict[str, tuple[Any, int]]:
    return {name: (nodes, extra) for name, nodes, extra in conn.execute(_TABLES.encode())}


if __name__ == "__main__":
    with throwaway_cluster() as cluster, connect(cluster.dsn(), role="test") as made:
        write(facts(made, sql_root()), sql_root())
