"""What cannot be captured: one sentence each, with what to do; and nothing is left behind."""

from __future__ import annotations

import pytest
from psycopg import Connection

from gapless.db.schema import here
from gapless.errors import RefusedError
from gapless.log.topics import Topic
from gapless.ops.captures import capture_table, list_captures, mend_capture, release_capture

MADE = """
create table public.t (id int primary key, n text);
create table public.keyless (a int);
create view public.v as select 1 as id;
create materialized view public.m as select 1 as id;
create sequence public.s;
create unlogged table public.u (id int primary key);
create temp table tmp (id int primary key);
create table public.p (id int primary key) partition by range (id);
create table public.p1 partition of public.p for values from (0) to (9);
create table public.parent (id int primary key);
create table public.child () inherits (public.parent);
create extension if not exists file_fdw with schema public;
create server files foreign data wrapper file_fdw;
create foreign table public.f (id int) server files options (filename '/dev/null');
create table public.pf (id int) partition by range (id);
create foreign table public.pf1 partition of public.pf for values from (0) to (9)
  server files options (filename '/dev/null');
"""
NO_NAME = "is no name of a table: write it as SQL does|there is no table"  # by version
TABLES = [
    ("nope", 'there is no table "nope": name it as SQL does, schema and all', "GL404"),
    ("no.nope", 'there is no table "no.nope": name it as SQL does, schema and all', "GL404"),
    ("", NO_NAME, "GL40"),
    ("a.b.c.d", NO_NAME, "GL40"),
    ('public."t', NO_NAME, "GL40"),
    ("t; drop table t", NO_NAME, "GL40"),
    ("public.v", "v is a view: capture the tables that it reads", "GL400"),
    ("public.m", "m is a materialized view: capture the tables that it reads", "GL400"),
    ("public.s", "s is no table: capture a table", "GL400"),
    ("public.u", "u is unlogged, so a crash empties it", "GL400"),
    ("pg_temp.tmp", "tmp is temporary: capture one that lasts", "GL400"),
    ("public.p1", "p1 is a part of public.p, and is written to through that", "GL400"),
    ("public.child", "child is a child of public.parent by INHERITS, and is written to", "GL400"),
    ("public.parent", "parent has children by INHERITS, whose rows its triggers do not", "GL400"),
    ("public.f", "f is a foreign table, of which no trigger sees what others write", "GL400"),
    ("public.pf", "pf has a foreign table among its partitions", "GL400"),
    ("gapless.outbox_message_t", "belongs to gapless itself: capture a table of your own", "GL400"),
    ("gapless.captured", "belongs to gapless itself", "GL400"),
    ("pg_catalog.pg_class", "belongs to the server", "GL400"),
    ("public.keyless", "keyless has no primary key: say what keeps its events in order", "GL400"),
]
WORDS = [
    ({"topic": "nope"}, 'topic "nope" does not exist: create it with gapless topics create', "GL404"),
    ({"old": "some"}, "old is 'none', 'changed' or 'all', not 'some'", "GL400"),
    ({"columns": ["id", "x"]}, 'has no column "x": it has id, n', "GL400"),
    ({"columns": []}, "columns is empty: name those that the payload of public.t has", "GL400"),
    ({"key": "{x}"}, 'has no column "x": it has id, n', "GL400"),
    ({"key": "id"}, 'key "id" names no column, so all events would have one key', "GL400"),
    ({"key": ""}, 'key "" names no column', "GL400"),
    ({"key": "{id"}, 'key "{id" has a lone {: columns are {id}', "GL400"),
    ({"key": "{id}}"}, 'has a lone }', "GL400"),
    ({"key": "{}"}, 'has a lone {', "GL400"),
    ({"key": "{id}" * 33}, "is too long: at most 32 columns and 4000 characters", "GL400"),
    ({"key": "{id}" + "x" * 4000}, "is too long: at most 32 columns and 4000 characters", "GL400"),
]  # fmt: skip


@pytest.fixture
def made(conn: Connection, topic: Topic) -> Connection:
    conn.execute(MADE)
    return conn


def test_tables(made: Connection) -> None:
    for table, says, sqlstate in TABLES:
        with pytest.raises(RefusedError, match=says.replace("(", r"\(")) as refused:
            capture_table(made, here(table), "outbox")
        assert "\n" not in str(refused.value)
        assert refused.value.sqlstate.startswith(sqlstate), table
    _nothing_left(made)


@pytest.mark.few(3)
@pytest.mark.parametrize(("words", "says", "sqlstate"), WORDS, ids=lambda each: str(each)[:20])
def test_words(made: Connection, words: dict[str, object], says: str, sqlstate: str) -> None:
    with pytest.raises(RefusedError) as refused:
        capture_table(made, "public.t", **{"topic": "outbox", **words})  # type: ignore[arg-type]
    assert says in str(refused.value)
    assert refused.value.sqlstate == sqlstate
    _nothing_left(made)


def test_without_a_topic(made: Connection) -> None:
    with pytest.raises(Exception, match=r"name the topic that the changes of public.t go to"):
        made.execute("select gapless.capture('public.t')")


def test_twice(made: Connection) -> None:
    capture_table(made, "public.t", "outbox")
    with pytest.raises(RefusedError, match="t is captured already: gapless capture remove"):
        capture_table(made, "public.t", "outbox")
    assert len(list_captures(made)) == 1


def test_release_and_mend_of_what_is_not_captured(made: Connection) -> None:
    assert release_capture(made, "public.t") is False
    with pytest.raises(RefusedError, match=r'there is no table "public.nope"'):
        release_capture(made, "public.nope")
    for table in ("public.t", "public.nope"):
        with pytest.raises(RefusedError, match=f'"{table}" is not captured: gapless capture lists'):
            mend_capture(made, table)


def _nothing_left(conn: Connection) -> None:
    assert list_captures(conn) == []
    row = conn.execute("select count(*) from pg_trigger where tgname like 'gapless_capture%'")
    assert row.fetchone() == (0,)
