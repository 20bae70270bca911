"""An upgrade from before 0042: captures and attachments of before go on, and know their columns by number."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapless.db import migrate as migrations
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.ops.attach import list_attachments
from migration.states import lay_out, states

OLD = "0041_replay_webhook"
MADE = (
    "create table public.box (id bigserial primary key, customer text, body jsonb)",
    "create table public.goods (id int primary key, name text)",
    "select gapless.create_topic('t', 4)",
    """select gapless.attach('public.box', 't', null, '{"key": "customer", "payload": "body"}')""",
    "select gapless.go_live(1, 100)",
    "select gapless.capture('public.goods', 't', '{name}')",
)


@pytest.mark.long
def test_tables_of_before(empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = lay_out(states()[OLD], tmp_path / "sql")
    with connect(empty_dsn, role="test") as conn:
        with monkeypatch.context() as patch:
            patch.setattr(migrations, "sql_root", lambda: old)
            migrate(conn)
        conn.execute("select gapless.create_chunks()")
        for text in MADE:
            conn.execute(text.encode())
        conn.execute("insert into public.box (customer, body) values ('a', '1')")
        assert migrate(conn) != []
        conn.execute("alter table public.box rename customer to client")
        conn.execute("alter table public.goods rename name to title")
        conn.execute("insert into public.box (client, body) values ('b', '2')")
        conn.execute("insert into public.goods values (1, 'c')")
        keys = "select array_agg(key order by id) from gapless.outbox_message_t"
        assert conn.execute(keys).fetchone() == (["a", "b", "c"],)
        (found,) = list_attachments(conn)
        assert found.problem == 'column "customer" (key) is called "client" now'
        noted = "select changes_before from gapless.attached"
        assert conn.execute(noted).fetchone() == (0,), "what was before is no news"
