"""Which locks each file of sql/ takes on tables that are there, measured by applying it.

`python tests/migration/test_plan.py` writes it to sql/locks.json, for `gapless init --plan`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from psycopg import Connection

from gapless.db.queries import query, sql_root
from gapless.db.schema import here

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
_NAMES = (
    "select array_agg(distinct p.proname::text) from pg_proc p"
    " where p.pronamespace = 'gapless'::regnamespace"
)


def measure(conn: Connection[Any]) -> Facts:
    """Apply all files to a database without the schema; the repeatable ones once more; return facts."""
    files: Facts = {}
    conn.execute(query("schema", "create_schema"))
    for path in sorted((sql_root() / "migrations").glob("*.sql")):
        files |= _apply(conn, path, f"migrations/{path.stem}")
    repeatable = [
        (kind, path)
        for kind in ("functions", "views")
        for path in sorted((sql_root() / kind).rglob("*.sql"), key=lambda each: each.stem)
    ]
    for kind, path in repeatable:  # whatever they call is not there yet
        _apply(conn, path, f"{kind}/{path.stem}")
    for kind, path in repeatable:
        files |= _apply(conn, path, f"{kind}/{path.stem}")
    return files


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


def names(conn: Connection[Any]) -> set[str]:
    """Return the names of the functions that a database has."""
    row = conn.execute(_NAMES.encode()).fetchone()
    return set(row[0] or ()) if row else set()
