"""From each earlier state to the newest, while programs of before work: nothing lost, doubled, reordered.

The states are those of the history of this repository (data/states.json.xz): each set of migrations that
a commit had, from 0002 on.
"""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from gapless import handler, testing
from gapless.consume.unit import Unit
from gapless.db import migrate as migrations
from gapless.db.connect import connect
from gapless.db.migrate import migrate, newest, require_schema
from migration.old_clients import PARTITIONS, TABLES, running
from migration.states import lay_out, states
from support.patience import bounded_patience

PATIENCE_S = 30


@handler(topic="orders", group="g")
def write(unit: Unit, conn: Connection[Any]) -> None:
    for event in unit:
        conn.execute(
            "insert into public.effect (key, event, who) values (%s, %s, 'new')",
            [event.key, event.payload],
        )


def _count(conn: Connection, what: str) -> int:
    (found,) = conn.execute(f"select count(*) from public.{what}".encode()).fetchone() or (0,)
    return int(found)


def _some_more(conn: Connection, what: str, failed: list[BaseException]) -> None:
    wanted = _count(conn, what) + 40
    give_up_s = time.monotonic() + bounded_patience(PATIENCE_S)
    while _count(conn, what) < wanted and not failed:
        assert time.monotonic() < give_up_s, f"no more of {what}"
        time.sleep(0.02)
    assert failed == []


def assert_once_and_in_order(conn: Connection) -> None:
    truth, effect = (
        conn.execute(f"select key, event from public.{what} order by n".encode()).fetchall()
        for what in ("truth", "effect")
    )
    assert len(effect) == len(set(effect)), "an event was handled twice"
    assert set(effect) == set(truth), "an event was lost, or nobody published it"
    of_key: defaultdict[str, list[int]] = defaultdict(list)
    for key, event in effect:
        of_key[key].append(event)
    for key, events in of_key.items():
        assert events == sorted(events), f"events of {key} were handled out of their order"


def _functions(conn: Connection) -> set[str]:
    made = (
        "select oid::regprocedure::text from pg_proc where pronamespace = 'gapless'::regnamespace"
    )
    return {name for (name,) in conn.execute(made.encode()).fetchall()}


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", states())
def test_upgraded_while_programs_of_before_work(
    state: str, empty_dsn: str, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(dsn, role="test") as new:
        functions = _functions(new)
    old = lay_out(states()[state], tmp_path / "sql")
    with connect(empty_dsn, role="test") as conn:
        with monkeypatch.context() as patch:
            patch.setattr(migrations, "sql_root", lambda: old)
            assert migrate(conn) != []
        conn.execute("select gapless.create_chunks()")
        conn.execute("select gapless.create_topic('orders', %s)", [PARTITIONS])
        conn.execute("select gapless.create_group('g', 'orders', 'earliest')")
        conn.execute(TABLES.encode())
        with running(empty_dsn) as clients:
            _some_more(conn, "effect", clients.failed)
            changes = migrate(conn)
            require_schema(conn)
            assert changes or state == newest(conn)  # today's may be as it was
            assert _functions(conn) == functions
            for what in ("truth", "effect"):  # they continue
                _some_more(conn, what, clients.failed)
            clients.no_more_handling.set()
            time.sleep(0.1)
        assert clients.failed == []
        testing.drain(empty_dsn, write)
        assert_once_and_in_order(conn)
        who = dict(conn.execute("select who, count(*) from public.effect group by 1").fetchall())
        assert who["old"] >= 80
        assert conn.execute("select count(*) from gapless.dead_letter").fetchone() == (0,)
