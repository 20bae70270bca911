"""What may be attached, and by which columns: tables, indexes, maps and places of which one thing is wrong."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from features.attach.boxes import KINDS, NO_ID, Boxes
from gapless.db.connect import connect

MADE = """
create table public.places (group_id text, partition_id int, next_offset bigint);
create table public.plain (group_id text, next_offset bigint, part int);
create table public.odd_places (name text, seen bigint, part int, partition_id int);
create table public.cut_places (group_id text, next_offset bigint) partition by range (next_offset);
create view public.seen as select * from public.plain;
create materialized view public.m as select 1 as id;
create sequence public.s;
create type public.y as (id int);
create unlogged table public.u (id int primary key);
create temp table tmp (id int primary key);
create table public.p (id int primary key) partition by range (id);
create table public.p1 partition of public.p for values from (0) to (9);
create table public.parent (id int primary key, key text);
create table public.child () inherits (public.parent);
create extension if not exists file_fdw with schema public;
create server files foreign data wrapper file_fdw;
create foreign table public.f (id int) server files options (filename '/dev/null');
create table public.updated (id int primary key, n int);
create table public.deleted (id int primary key, n int);
insert into public.updated values (1), (2);
insert into public.deleted values (1), (2);
"""


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Boxes]:
    with connect(module_dsn, role="test") as conn:
        boxes = Boxes(conn, KINDS + MADE)
        boxes.run("update public.updated set n = 1 where id = 1")
        boxes.run("delete from public.deleted where id = 1")
        boxes.counted("public.updated", 1, 0)
        boxes.counted("public.deleted", 0, 1)
        yield boxes


GROUP = {"group": "group_id"}
NEXT = {"next": "next_offset"}
PLACES: list[tuple[dict[str, Any], dict[str, Any] | str]] = [
    ({"table": "places"}, {"table": "public.places", "partition": "partition_id", **GROUP, **NEXT}),
    ({"table": "public.plain"}, {"table": "public.plain", "partition": None, **GROUP, **NEXT}),
    ({"table": "plain", "partition": "part"}, {"table": "public.plain", "partition": "part", **GROUP, **NEXT}),
    ({"table": "places", "partition": ""}, {"table": "public.places", "partition": None, **GROUP, **NEXT}),
    ({"table": "cut_places"}, {"table": "public.cut_places", "partition": None, **GROUP, **NEXT}),
    (
        {"table": "odd_places", "group": "name", "last": "seen"},
        {"table": "public.odd_places", "group": "name", "last": "seen", "partition": "partition_id"},
    ),
    (
        {"table": "odd_places", "group": "name", "next": "seen", "partition": "part"},
        {"table": "public.odd_places", "group": "name", "next": "seen", "partition": "part"},
    ),
    ({"table": "nope"}, 'GL404 there is no table "nope" with places of consumers'),
    ({"table": "seen"}, 'GL404 there is no table "seen" with places of consumers'),
    ({"table": "s"}, 'GL404 there is no table "s" with places of consumers'),
    ({}, 'GL404 there is no table "<NULL>" with places of consumers'),
    ({"table": "plain", "x": "y"}, 'GL400 a place has no "x": say group, next (or last) and partition'),
    (
        {"table": "plain", "next": "part", "last": "part"},
        "GL400 a place is the id that is next, or the last one that was handled: say one of them",
    ),
    ({"table": "plain", "group": "x"}, 'GL400 plain has no column "x": it has group_id, next_offset, part'),
    ({"table": "plain", "next": "y"}, 'GL400 plain has no column "y": it has group_id, next_offset, part'),
    ({"table": "plain", "last": "y"}, 'GL400 plain has no column "y": it has group_id, next_offset, part'),
    ({"table": "plain", "partition": "z"}, 'GL400 plain has no column "z": it has group_id, next_offset, part'),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "said"), PLACES)
def test_where_old_consumers_say_how_far_they_are(
    boxes: Boxes, asked: dict[str, Any], said: Any
) -> None:
    statement = "select gapless.checked_places(%s::jsonb)"
    if isinstance(said, str):
        assert " ".join(boxes.refused(statement, json.dumps(asked))) == said
    else:
        assert boxes.value(statement, json.dumps(asked)) == said


def test_nowhere_is_nowhere(boxes: Boxes) -> None:
    assert boxes.value("select gapless.checked_places(null) is null")


TABLES = {
    "box": None,
    '"My shop"."Box"': None,
    "gapless.topic": "gapless.topic belongs to gapless itself: attach a table of your own",
    "gapless.attachments": "gapless.attachments belongs to gapless itself: attach a table of your own",
    "pg_catalog.pg_class": "pg_class belongs to the server: attach a table of your own",
    "pg_catalog.pg_views": "pg_views belongs to the server: attach a table of your own",
    "information_schema.sql_parts": "information_schema.sql_parts belongs to the server: attach a table of your own",
    "seen": "seen is a view: attach the table that it reads",
    "m": "m is a materialized view: attach the table that it reads",
    "f": "f is a foreign table, where no trigger sees the writes of others: attach it where it lies",
    "p": "p is partitioned, and writes directly to a partition are not seen: gapless capture takes such tables",
    "s": "s is no table: attach a table",
    "y": "y is no table: attach a table",
    "box_pkey": "box_pkey is no table: attach a table",
    "tmp": "tmp is temporary: attach one that lasts",
    "u": "u is unlogged, so a crash empties it and nobody is told: alter table … set logged",
    "p1": "p1 is a part of another table, or has parts: attach a table of its own",
    "parent": "parent is a part of another table, or has parts: attach a table of its own",
    "child": "child is a part of another table, or has parts: attach a table of its own",
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_which_tables_a_trigger_sees_every_row_of(boxes: Boxes, table: str) -> None:
    statement = "select gapless.refuse_unattachable(%s, %s::regclass)"
    said = TABLES[table]
    if said is None:
        boxes.run(statement, table, table)
    else:
        assert boxes.refused(statement, table, table) == ("GL400", said)


def test_no_table_is_none(boxes: Boxes) -> None:
    said = boxes.refused("select gapless.refuse_unattachable('nope', null)")
    assert said == ("GL404", 'there is no table "nope": name it as SQL does, schema and all')


# A table, what is done to it in this transaction, and what is said of its rows.
CHANGES: list[tuple[str, str, str | None]] = [
    ("small", "", None),
    ("small", "insert into public.small values ('x', 1, 1)", None),
    ("small", "update public.fresh set b = 7", None),
    ("fresh", "", None),
    ("fresh", "update public.fresh set b = 7 where a = 1", "updated"),
    ("fresh", "delete from public.fresh where a = 1", "deleted"),
    ("fresh", "delete from public.fresh where a = 1; update public.fresh set b = 7", "updated"),
    ("updated", "", "updated"),
    ("deleted", "", "deleted"),
]


@pytest.mark.parametrize(("table", "done", "said"), CHANGES)
def test_rows_that_were_changed(boxes: Boxes, table: str, done: str, said: str | None) -> None:
    # One of its own: what is rolled back is counted as well.
    boxes.run("create table public.fresh as select 1 as a, 1 as b union all select 2, 2")
    if done:
        boxes.run(done)
    statement = "select gapless.refuse_changing(%s::regclass, %s)"
    boxes.run(statement, table, True)
    for despite in (False, None):
        if said is None:
            boxes.run(statement, table, despite)
            continue
        assert boxes.refused(statement, table, despite) == (
            "GL400",
            (
                f"rows of {table} were {said}, and the log has a row as it was inserted: attach a table that only grows, or say"
                " --despite-changes if that is done only to rows that all have read"
            ),
        )


CHECKED = "select * from gapless.checked_attachment(%s, %s, %s, %s::jsonb, %s::jsonb)"
SEVERAL = 'topic "outbox" has several partitions: name a column that keeps the rows of public.{} in order, --map key=COLUMN'
WRONG: dict[str, tuple[tuple[str | None, ...], tuple[str, str]]] = {
    "no table": (
        ("nope", "outbox", None, None, None),
        ("GL404", 'there is no table "nope": name it as SQL does, schema and all'),
    ),
    "a view": (("seen", "outbox", None, None, None), ("GL400", "seen is a view: attach the table that it reads")),
    "no topic": (("box", None, None, None, None), ("GL400", "name the topic that the rows of public.box go to")),
    "another topic": (
        ("box", "nope", None, None, None),
        ("GL404", 'topic "nope" does not exist: create it with gapless topics create nope'),
    ),
    "no id": (("pair", "outbox", None, None, None), ("GL400", NO_ID.format("pair"))),
    "no order": (("box", "outbox", None, None, None), ("GL400", SEVERAL.format("box"))),
    "no order of its own": (
        ("whole", "outbox", None, '{"key": null, "host_id": null}', None), ("GL400", SEVERAL.format("whole"))
    ),
    "places": (
        ("box", "single", None, None, '{"table": "nope"}'),
        ("GL404", 'there is no table "nope" with places of consumers'),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_makes_no_sense(boxes: Boxes, name: str) -> None:
    asked, said = WRONG[name]
    assert boxes.refused(CHECKED, *asked) == said


# What is asked for, and how it is noted: table, topic, id, map, places.
ASKED: list[tuple[tuple[str | None, ...], tuple[Any, ...]]] = [
    (("box", "single", None, None, None), ("public.box", "single", "id", {}, None)),
    (
        ("box", "outbox", None, '{"key": "customer"}', None),
        ("public.box", "outbox", "id", {"key": "customer"}, None),
    ),
    (
        ("box", "outbox", None, '{"host_id": "customer"}', None),
        ("public.box", "outbox", "id", {"host_id": "customer"}, None),
    ),
    (
        ('"My shop"."Box"', "other", "The id", '{"key": "customer"}', '{"table": "plain"}'),
        (
            '"My shop"."Box"',
            "other",
            "The id",
            {"key": "customer", "payload": "payload"},
            {"table": "public.plain", "group": "group_id", "partition": None, "next": "next_offset"},
        ),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "noted"), ASKED)
def test_what_is_noted_of_it(
    boxes: Boxes, asked: tuple[str | None, ...], noted: tuple[Any, ...]
) -> None:
    found = boxes.row(
        CHECKED.replace(
            "*",
            "table_name, (select name from gapless.topic t where t.topic_id = c.topic_id),"
            " id_column, jsonb_strip_nulls(map), places, table_id",
        )
        + " c",
        *asked,
    )
    assert found[:-1] == noted
    assert found[-1] == boxes.value("select %s::regclass::oid", asked[0])


# The ids that are there; how many, the first, the last, and how many are missing.
PLANS: dict[str, tuple[list[int], tuple[int, int | None, int | None, int]]] = {
    "none": ([], (0, None, None, 0)),
    "one": ([7], (1, 7, 7, 0)),
    "one after the other": ([7, 8, 9], (3, 7, 9, 0)),
    "with gaps": ([-1, 1, 4], (3, -1, 4, 3)),
    "more than can be counted": ([-(2**63), 2**63 - 1], (2, -(2**63), 2**63 - 1, 2**63 - 1)),
}


@pytest.mark.parametrize("name", PLANS)
def test_what_there_is_to_copy(boxes: Boxes, name: str) -> None:
    ids, counted = PLANS[name]
    boxes.fill(*ids)
    boxes.fill(3, 5, table="twin")
    boxes.run("select gapless.create_topic('wide', 5)")
    for topic, partitions in [("wide", 5), ("outbox", 2), ("single", 1)]:
        found = boxes.row(
            "select * from gapless.attach_plan(%s, %s, null, %s::jsonb, %s::jsonb, false)",
            "box", topic, '{"key": "customer"}', '{"table": "plain"}',
        )  # fmt: skip
        places = {"table": "public.plain", "partition": None, **GROUP, **NEXT}
        assert found[:9] == (
            "public.box", topic, "id", {"key": "customer"}, places, partitions, *counted[:3],
        )  # fmt: skip
        assert found[9] == counted[3]


def test_a_plan_is_refused_as_the_deed_is(boxes: Boxes) -> None:
    plan = "select * from gapless.attach_plan(%s, 'single', null, null, null, %s)"
    assert boxes.refused(plan, "updated", False)[1].startswith("rows of updated were updated, and")
    assert boxes.row(plan, "updated", True)[6:] == (2, 1, 2, 0)
    assert boxes.refused(plan, "pair", True) == ("GL400", NO_ID.format("pair"))
