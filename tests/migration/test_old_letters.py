"""Dead letters of a database from before failure policies: kept, as whole units (I5, I9)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from psycopg import Connection

from gapless.db import migrate as migrations
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.db.queries import sql_root

OLD = """
insert into gapless.topic (name, partitions) values ('orders', 2);
insert into gapless.dead_letter_queue (
  group_id, topic_id, partition_id, c_offset, message_id, key, transaction_id, payload, created_ts,
  exception, attempts
)
select 'g', 1, p, o, o * 10, 'k' || o, t, '{"n": 1}', now(), e, a
from (values
  (0, 3, '00000000-0000-0000-0000-000000000001'::uuid, E'Traceback\nValueError: no', 1),
  (0, 4, '00000000-0000-0000-0000-000000000001', E'Traceback\nValueError: no', 1),
  (0, 5, '00000000-0000-0000-0000-000000000002', E'Traceback\nValueError: no', 1),
  (0, 7, '00000000-0000-0000-0000-000000000002', 'died', 3),
  (1, 4, '00000000-0000-0000-0000-000000000001', 'died', 3)
) x (p, o, t, e, a)
"""
UNITS = """
select partition_id, first_offset, last_offset, events, state, attempts, reason
from gapless.dead_letter order by 1, 2
"""


def test_they_are_kept_as_units(
    empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(empty_dsn, role="test") as empty:
        _upgrade(empty, tmp_path, monkeypatch)


def _upgrade(empty: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "sql"
    shutil.copytree(sql_root() / "roles", old / "roles")
    for file in (old / "roles").iterdir():
        file.write_text("select 1")
    (old / "migrations").mkdir()
    for name in ("0001_log", "0002_groups"):
        shutil.copy(sql_root() / "migrations" / f"{name}.sql", old / "migrations")
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "sql_root", lambda: old)
        migrate(empty)
    empty.execute(OLD)
    before = empty.execute(
        "select c_offset, message_id, key, payload::text, exception, attempts, status, created_dt"
        " from gapless.dead_letter_queue order by partition_id, c_offset"
    ).fetchall()

    migrate(empty)

    after = empty.execute(
        "select c_offset, message_id, key, payload::text, exception, attempts, status"
        " from gapless.dead_letter_queue order by partition_id, c_offset"
    ).fetchall()
    assert after == [row[:-1] for row in before]
    assert empty.execute(UNITS).fetchall() == [
        (0, 3, 4, 2, "dead", 1, "ValueError: no"),
        (0, 5, 5, 1, "dead", 1, "ValueError: no"),
        (0, 7, 7, 1, "dead", 3, "died"),
        (1, 4, 4, 1, "dead", 3, "died"),
    ]
    assert empty.execute("select count(*) from gapless.letters").fetchone() == (5,)
