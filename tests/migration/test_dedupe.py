"""A database from before dedupe: its events stay, its programs go on, keys work at once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from psycopg import Connection

from gapless.db import migrate as migrations
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.db.queries import query, sql_root
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic

# The functions of that time, as far as their arguments have changed.
OLD = """
create function gapless.publish(
  topic text, payload json, key text default null, event_type text default null,
  headers jsonb default null, host_id text default null, user_id text default null,
  transaction_id uuid default null
) returns uuid language sql as 'select null::uuid';
create function gapless.create_topic(name text, partitions int, keep_s double precision)
returns int language sql as 'select 0';
insert into gapless.topic (topic_id, name, partitions) values (1, 'orders', 2);
insert into gapless.outbox_message_t (topic_id, payload) select 1, '1' from generate_series(1, 5);
"""


def test_it_is_upgraded_with_its_data(
    empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "sql"
    shutil.copytree(sql_root() / "migrations", old / "migrations")
    for name in ("dedupe", "requests"):  # and what builds on it
        for path in (old / "migrations").glob(f"*_{name}.sql"):
            path.unlink()
    with connect(empty_dsn, role="test") as conn:
        with monkeypatch.context() as patch:
            patch.setattr(migrations, "sql_root", lambda: old)
            migrate(conn)
        conn.execute(OLD)
        migrate(conn)
        _works(conn)


def _works(conn: Connection) -> None:
    windows = conn.execute("select extract(epoch from dedupe_window) from gapless.topic")
    assert windows.fetchall() == [(7 * 86400,)]
    signatures = conn.execute(
        "select proname, count(*) from pg_proc where pronamespace = 'gapless'::regnamespace"
        " and proname in ('publish', 'create_topic') group by 1 order by 1"
    )
    assert signatures.fetchall() == [("create_topic", 2), ("publish", 1)], "no call is ambiguous"
    ensure_topic(conn, "orders", partitions=2)
    one = dict.fromkeys(("key", "event_type", "headers", "host_id", "user_id", "transaction_id"))
    conn.execute(query("log", "publish_one"), {"topic": "orders", "payload": "1", **one})
    for _ in range(2):
        publish(conn, "orders", 1, dedupe_key="a")
    assert sequence(conn) == 7
