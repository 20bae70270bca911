"""What cannot be attached: one sentence each, with what to do; and nothing is left behind."""

from __future__ import annotations

from time import monotonic, sleep

import pytest
from psycopg import Connection

from gapless.errors import RefusedError
from gapless.log.topics import Topic, ensure_topic
from gapless.ops.attach import (
    Wish,
    attach_table,
    detach_table,
    list_attachments,
    mend_attachment,
    plan_attachment,
)
from gapless.ops.switch import hand_back, place_group
from support.patience import patience

MADE = """
create table public.t (id int primary key, key text, n numeric unique, nullable int unique, j jsonb);
create table public.pair (a int, b int, primary key (a, b));
create table public.keyless (id int);
create table public.named (id text primary key, key text);
create view public.v as select 1 as id;
create materialized view public.m as select 1 as id;
create sequence public.s;
create unlogged table public.u (id int primary key);
create temp table tmp (id int primary key);
create table public.p (id int primary key) partition by range (id);
create table public.p1 partition of public.p for values from (0) to (9);
create table public.parent (id int primary key, key text);
create table public.child () inherits (public.parent);
create table public.orderless (id int primary key, n int);
create table public.places (group_id text, next_offset bigint);
create extension if not exists file_fdw with schema public;
create server files foreign data wrapper file_fdw;
create foreign table public.f (id int) server files options (filename '/dev/null');
insert into public.t values (1, 'k', 1, null, '1');
"""
NO_NAME = "is no name of a table: write it as SQL does|there is no table"  # by version
TABLES = [
    ("nope", 'there is no table "nope": name it as SQL does, schema and all'),
    ("", NO_NAME),
    ('public."t', NO_NAME),
    ("t; drop table t", NO_NAME),
    ("public.v", "v is a view: attach the table that it reads"),
    ("public.m", "m is a materialized view: attach the table that it reads"),
    ("public.s", "s is no table: attach a table"),
    ("public.u", "u is unlogged, so a crash empties it"),
    ("pg_temp.tmp", "tmp is temporary: attach one that lasts"),
    ("public.p", "p is partitioned, and what is written directly to a partition is not seen"),
    ("public.p1", "p1 is a part of another table, or has parts"),
    ("public.parent", "parent is a part of another table, or has parts"),
    ("public.child", "child is a part of another table, or has parts"),
    ("public.f", "f is a foreign table, of which no trigger sees what others write"),
    ("gapless.outbox_message_t", "belongs to gapless itself: attach a table of your own"),
    ("pg_catalog.pg_class", "belongs to the server"),
    ("public.pair", "pair has no ordered id: its primary key is no single column"),
    ("public.keyless", "keyless has no ordered id"),
    ("public.named", 'named has no ordered id: column "id" is text, not of whole numbers'),
    ("public.orderless", "has several partitions: say what keeps the rows of public.orderless in"),
]
WORDS = [
    ({"topic": "nope"}, 'topic "nope" does not exist: create it with gapless topics create'),
    ({"id": "x"}, 'has no column "x": it has id, key, n, nullable, j'),
    ({"id": "n"}, 'column "n" is numeric, not of whole numbers'),
    ({"id": "nullable"}, 'some rows of .*t have no "nullable", so they have no place in its order'),
    ({"map": {"body": "key"}}, 'an event has no column "body": map one of key, host_id, user_id'),
    ({"map": {"payload": "x"}}, 'has no column "x"'),
    ({"map": {"payload": "n"}}, 'column "n" is numeric, which is no JSON and no text'),
    ({"map": {"headers": "key"}}, 'column "key" is text, which is no JSON'),
    ({"places": {"table": "nope"}}, 'there is no table "nope" with places of consumers'),
    ({"places": {"table": "public.v"}}, 'there is no table "public.v" with places of consumers'),
    ({"places": {"table": "public.t"}}, 'has no column "group_id"'),
    ({"places": {"table": "public.places", "x": "y"}}, 'a place has no "x"'),
    ({"places": {"table": "public.places", "next": "a", "last": "b"}}, "say one of them"),
]


@pytest.fixture
def made(conn: Connection, topic: Topic) -> Connection:
    conn.execute(MADE)
    return conn


def nothing_is_left(conn: Connection) -> None:
    assert list_attachments(conn) == []
    assert conn.execute("select count(*) from gapless.audit").fetchone() == (0,)


@pytest.mark.few(3)
@pytest.mark.parametrize(("table", "said"), TABLES)
def test_a_table_that_cannot_be(made: Connection, table: str, said: str) -> None:
    for act in (plan_attachment, attach_table):
        with pytest.raises(RefusedError, match=said) as caught:
            act(made, Wish(table=table, topic="outbox"))
        assert "\n" not in str(caught.value)
    nothing_is_left(made)


@pytest.mark.few(3)
@pytest.mark.parametrize(("words", "said"), WORDS)
def test_words_that_make_no_sense(made: Connection, words: dict, said: str) -> None:
    with pytest.raises(RefusedError, match=said):
        attach_table(made, Wish(**{"table": "public.t", "topic": "outbox", **words}))
    nothing_is_left(made)


@pytest.mark.parametrize(
    ("change", "said"),
    [("update public.t set n = 2", "updated"), ("delete from public.t", "deleted")],
)
def test_a_table_whose_rows_change(made: Connection, change: str, said: str) -> None:
    """By the server's statistics, which come a moment later."""
    made.execute(change.encode())
    wish = Wish(table="public.t", topic="outbox")

    def refused() -> bool:
        try:
            plan_attachment(made, wish)
        except RefusedError as error:
            return f"rows of t were {said}" in str(error)
        return False

    give_up_s = monotonic() + patience(30)
    while not refused():
        assert monotonic() < give_up_s
        sleep(0.05)
    with pytest.raises(RefusedError, match=f"were {said}, and the log has a row as it was insert"):
        attach_table(made, wish)
    nothing_is_left(made)
    attach_table(made, Wish(table="public.t", topic="outbox", despite_changes=True))


def test_what_is_not_attached(made: Connection, dsn: str) -> None:
    said = '"public.t" is not attached: gapless attach lists what is'
    with pytest.raises(RefusedError, match=said):
        mend_attachment(made, "public.t")
    with pytest.raises(RefusedError, match=said):
        place_group(made, "public.t", "g", dsn=dsn)
    with pytest.raises(RefusedError, match=said):
        hand_back(made, "public.t", "g", dsn=dsn)
    attach_table(made, Wish(table="public.t", topic="outbox"))
    said = 'group "g" stands for no old consumer of public.t: gapless attach lists those that do'
    with pytest.raises(RefusedError, match=said):
        hand_back(made, "public.t", "g", dsn=dsn)
    assert detach_table(made, "public.t")
    assert not detach_table(made, "public.t")
    with pytest.raises(RefusedError, match='there is no table "nope"'):
        detach_table(made, "nope")


def test_a_place_that_makes_no_sense(made: Connection, dsn: str) -> None:
    wish = Wish(table="public.t", topic="outbox", places={"table": "public.places"})
    attach_table(made, Wish(table="public.t", topic="outbox"))
    with pytest.raises(RefusedError, match=r"say where the old consumer is, the id that is next"):
        place_group(made, "public.t", "g", dsn=dsn)
    attach_table(made, wish)
    with pytest.raises(RefusedError, match=r"is is read from public.places, so no place is said"):
        place_group(made, "public.t", "g", dsn=dsn, place=1)
    with pytest.raises(RefusedError, match=r'public.places has no place of "g"'):
        place_group(made, "public.t", "g", dsn=dsn)
    made.execute("insert into public.places values ('g', 1), ('g', 2)")
    with pytest.raises(
        RefusedError, match='"g" has places of partitions 0, 0, and the topic has 4'
    ):
        place_group(made, "public.t", "g", dsn=dsn)
    assert made.execute("select count(*) from gapless.consumer_group").fetchone() == (0,)


def test_a_group_that_is_there(made: Connection, dsn: str) -> None:
    attach_table(made, Wish(table="public.t", topic="outbox"))
    made.execute("select gapless.create_group('g', 'outbox', 'earliest')")
    with pytest.raises(RefusedError, match=r'there is a group "g" of topic "outbox" already'):
        place_group(made, "public.t", "g", dsn=dsn, place=1)


def test_a_group_before_the_end_is_copied(made: Connection, dsn: str) -> None:
    made.execute("select gapless.attach('public.t', 'outbox', null, null, null, false)")
    with pytest.raises(RefusedError, match=r"public.t is not copied to its end yet"):
        place_group(made, "public.t", "g", dsn=dsn, place=1)


def test_one_partition_needs_no_key(made: Connection) -> None:
    ensure_topic(made, "single", partitions=1)
    attach_table(made, Wish(table="public.orderless", topic="single"))
