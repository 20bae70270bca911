"""An invented next version of gapless: this program, with SQL that is newer by two migrations.

A folder that holds it is a checkout: `supervisor` is a link to ours, `sql` a copy of ours with the files below. So its
commands are `python -m gapless` with the folder's `supervisor` first on the path, and no name is replaced in a process.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from psycopg import Connection

from gapless.db.lock_facts import locks
from gapless.db.queries import sql_root
from migration.locks import facts_of_migrations, write

# A table that workers and publishers write gets a column, and its rows another value; a function that each batch calls
# gets an argument more, and is dropped with its old signature; a function goes for good; a view gets a column.
NAMES = ("0001_notes", "0002_labels")
_FILES = {
    "migrations/0001_notes.sql": """\
-- Notes of events and of groups.
create table gapless.note (
  topic_id int primary key references gapless.topic,
  note text not null
);
insert into gapless.note select t.topic_id, t.name from gapless.topic t;
alter table gapless.outbox_message_t add column note text;
alter table gapless.consumer_offsets add column notes bigint not null default 0;
update gapless.consumer_offsets set notes = next_offset;
drop function if exists gapless.finish_batch(text);
drop function if exists gapless.transaction_fate(uuid);
""",
    "migrations/0002_labels.sql": """\
-- Labels of topics.
alter table gapless.topic add column label text not null default 'none';
create index topic_label on gapless.topic (label);
""",
    "views/notes.sql": "create or replace view gapless.notes as select n.note from gapless.note n;\n",
}
_CHANGED = {
    "consume/functions/claim/finish_batch.sql": (
        "(_claim_xid text)",
        "(_claim_xid text, _note text default null)",
    ),
    "log/views/topics.sql": ("  t.dedupe_window\n", "  t.dedupe_window,\n  t.label\n"),
}
_GONE = "log/functions/chain/transaction_fate.sql"


HOLD = 77  # an advisory lock of the tests' own
# The tables and functions are there, or changed, when the first view is made.
WAIT_HALF_WAY = f"""
create function public.wait_half_way() returns event_trigger language plpgsql as $$
begin
  perform pg_advisory_xact_lock({HOLD});
end
$$;
create event trigger wait_half_way on ddl_command_start when tag in ('CREATE VIEW')
  execute function public.wait_half_way();
"""
WAITING = f"select pid from pg_locks where objid = {HOLD} and locktype = 'advisory' and not granted"


class Following:
    """The next version: its folder of SQL, and its commands on a database."""

    def __init__(self, folder: Path) -> None:
        self.sql = folder / "sql"
        self.path = str(folder / "supervisor")
        (folder / "supervisor").symlink_to(sql_root().parent / "supervisor")
        shutil.copytree(sql_root(), self.sql)

    def lay_out(self, conn: Connection) -> None:
        """Write its files; `conn`: to a database without the schema, in which their locks are measured."""
        for name, text in _FILES.items():
            (self.sql / name).parent.mkdir(exist_ok=True)
            (self.sql / name).write_text(text)
        for name, (was, becomes) in _CHANGED.items():
            text = (self.sql / name).read_text()
            assert was in text
            (self.sql / name).write_text(text.replace(was, becomes))
        (self.sql / _GONE).unlink()
        of_it = facts_of_migrations(conn, self.sql)
        write({"files": locks() | of_it["files"], "gone": of_it["gone"]}, self.sql)

    def begin(self, dsn: str, *words: str) -> subprocess.Popen[str]:
        """Start `gapless …` of this version."""
        return subprocess.Popen(
            [sys.executable, "-m", "gapless", *words],
            env={**os.environ, "PYTHONPATH": self.path, "GAPLESS_DSN": dsn},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def answer(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end of a command; return its exit code and all it said."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out + err
