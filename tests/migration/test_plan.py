"""gapless init --plan: what it says was measured, is what happens, and changes nothing.

`python tests/migration/test_plan.py` writes sql/locks.json.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import Connection

sys.path.insert(0, str(Path(__file__).parents[1]))

from gapless.db import migrate as migrations
from gapless.db.connect import connect
from gapless.db.embedded.server import throwaway_cluster
from gapless.db.migrate import migrate
from gapless.db.queries import sql_root
from gapless.ops.upgrade import plan_upgrade
from migration.locks import measure, names
from migration.states import lay_out, states

LOCKS = sql_root() / "locks.json"
_MAKES = re.compile(r"function gapless\.(\w+)")
# Whatever init would change, and what it would not.
CATALOG = (
    "select oid, relname, relnamespace, relfilenode, relacl::text, relhastriggers, xmin::text from pg_class",
    "select oid, proname, prosrc, proacl::text, xmin::text from pg_proc",
    "select oid, tgname, tgrelid, xmin::text from pg_trigger",
    "select oid, nspname, nspacl::text, xmin::text from pg_namespace",
    "select oid, rolname from pg_roles",
    "select classid, objid, refclassid, refobjid from pg_depend",
)


def facts(conn: Connection[Any]) -> dict[str, Any]:
    files = measure(conn)
    text = (text for state in states().values() for text in state.values())
    had = {name for each in text for name in _MAKES.findall(each)}
    return {"files": files, "gone": sorted(had - names(conn))}


def before(state: str, folder: Path, conn: Connection, patch: pytest.MonkeyPatch) -> None:
    """Install the schema as it was at a migration."""
    old = lay_out(states()[state], folder)
    with patch.context() as inside:
        inside.setattr(migrations, "sql_root", lambda: old)
        migrate(conn)
    conn.execute("select gapless.create_chunks()")


@pytest.fixture
def empty(empty_dsn: str) -> Iterator[Connection]:
    with connect(empty_dsn, role="test") as made:
        yield made


@pytest.fixture
def old(empty: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Connection:
    before("0015_member_role", tmp_path / "sql", empty, monkeypatch)
    return empty


def _catalog(conn: Connection) -> list[list[tuple[Any, ...]]]:
    return [conn.execute(f"{each} order by 1, 2, 3, 4".encode()).fetchall() for each in CATALOG[:4]]


@pytest.mark.long
def test_what_it_says_was_measured(empty: Connection) -> None:
    """To mend: python tests/migration/test_plan.py."""
    assert json.loads(LOCKS.read_text()) == facts(empty)


@pytest.mark.long
def test_it_is_what_happens(old: Connection) -> None:
    plan = plan_upgrade(old)
    assert plan.installed == "0015_member_role"
    assert plan.migrations[:2] == ["0015_squatters", "0016_arguments"]
    changes = migrate(old)
    done = [change.kind for change in changes]
    assert list(plan.migrations) == [c.name for c in changes if c.kind == "migrations"]
    assert (plan.functions, plan.views) == (done.count("functions"), done.count("views"))
    there = names(old)
    assert not there & set(plan.gone)
    after = plan_upgrade(old)
    assert (after.migrations, after.functions, after.locks, after.gone) == ([], 0, [], [])


def test_rows_of_the_tables_that_are_locked(old: Connection) -> None:
    for name in ("orders", "bills", "mails"):
        old.execute("select gapless.create_topic(%s, 1)", [name])
    old.execute("analyze gapless.topic")
    locks = [each for each in plan_upgrade(old).locks if each.table == "topic"]
    assert "0025_direct" in {each.file for each in locks}
    assert {each.rows for each in locks} == {3}
    assert all(each.bytes == 8192 for each in locks)
    assert {each.blocks for each in locks} == {"readers and writers", "writers"}
    assert plan_upgrade(old).seconds > 0


@pytest.mark.long
def test_it_locks_nothing_and_changes_nothing(old: Connection, empty_dsn: str) -> None:
    had = _catalog(old)
    with psycopg.connect(empty_dsn, autocommit=True) as conn, conn.transaction():
        plan_upgrade(conn)
        held = conn.execute(
            "select l.mode from pg_locks l where l.pid = pg_backend_pid()"
            " and l.locktype = 'relation' and l.mode <> 'AccessShareLock'"
        ).fetchall()
        (xid,) = conn.execute("select pg_current_xact_id_if_assigned()").fetchone() or (0,)
    assert (held, xid) == ([], None)
    assert _catalog(old) == had


if __name__ == "__main__":
    with throwaway_cluster() as cluster, connect(cluster.dsn(), role="test") as made:
        LOCKS.write_text(json.dumps(facts(made), indent=1, sort_keys=True) + "\n")
