"""What may be captured, by which key and columns: tables, templates and words of which one thing is wrong."""

from typing import Any

import pytest

from features.capture.ledger import RECORD, CaptureBook

MORE = """
create schema "My shop";
create table "My shop"."Box" ("The id" int primary key, a text);
create table public.keyless (a int, b int);
create unique index on public.keyless (a);
create table public.dropped (id int primary key, gone int, "a%b" int, "A" int);
alter table public.dropped drop gone;
create view public.v as select 1 as id;
create materialized view public.m as select 1 as id;
create sequence public.s;
create type public.y as (id int);
create unlogged table public.u (id int primary key);
create temp table tmp (id int primary key);
create table public.p (id int primary key, n int) partition by range (id);
create table public.p1 partition of public.p for values from (0) to (9);
create table public.p2 partition of public.p for values from (10) to (19) partition by range (id);
create table public.p21 partition of public.p2 for values from (10) to (15);
create table public.parent (id int primary key);
create table public.child () inherits (public.parent);
create table "My shop".two (id int);
create table public.of_two () inherits (public.parent, "My shop".two);
create extension if not exists file_fdw with schema public;
create server files foreign data wrapper file_fdw;
create foreign table public.f (id int) server files options (filename '/dev/null');
create table public.pf (id int) partition by range (id);
create table public.pf1 partition of public.pf for values from (0) to (9) partition by range (id);
create foreign table public.pf11 partition of public.pf1 for values from (0) to (9)
  server files options (filename '/dev/null');
create table public.pu (id int primary key) partition by range (id);
"""


PARTED = "{} is a part of public.p, and is written to through that: capture public.p"
CHILD = "{} is a child of public.parent by INHERITS, and is written to through that, too: alter table … no inherit"
FOREIGN = "{} has a foreign table among its partitions, of which no trigger sees the rows: detach that, then capture it"
TABLES = {
    "box": None,
    '"My shop"."Box"': None,
    "p": None,
    "pu": None,
    "keyless": None,
    "gapless.topic": "gapless.topic belongs to gapless itself: capture a table of your own",
    "gapless.captures": "gapless.captures belongs to gapless itself: capture a table of your own",
    "pg_catalog.pg_class": "pg_class belongs to the server: capture a table of your own",
    "pg_catalog.pg_views": "pg_views belongs to the server: capture a table of your own",
    "information_schema.sql_parts": "information_schema.sql_parts belongs to the server: capture a table of your own",
    "v": "v is a view: capture the tables that it reads",
    "m": "m is a materialized view: capture the tables that it reads",
    "f": "f is a foreign table, where no trigger sees the writes of others: capture it where it lies",
    "pf11": "pf11 is a foreign table, where no trigger sees the writes of others: capture it where it lies",
    "s": "s is no table: capture a table",
    "y": "y is no table: capture a table",
    "tmp": "tmp is temporary: capture one that lasts",
    "u": "u is unlogged, so a crash empties it and nobody is told: alter table … set logged",
    "parent": "parent has children by INHERITS, whose rows its triggers do not see: alter table … no inherit",
    "child": CHILD.format("child"),
    "of_two": CHILD.format("of_two"),
    "p1": PARTED.format("p1"),
    "p2": PARTED.format("p2"),
    "p21": PARTED.format("p21"),
    "pf": FOREIGN.format("pf"),
    "pf1": "pf1 is a part of public.pf, and is written to through that: capture public.pf",
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES)
def test_which_tables_triggers_see_every_change_of(ledger: CaptureBook, table: str) -> None:
    statement = "select gapless.refuse_uncapturable(%s, %s::regclass)"
    said = TABLES[table]
    if said is None:
        ledger.run(statement, table, table)
    else:
        assert ledger.refused(statement, table, table) == ("GL400", said)


def test_no_table_is_not_captured(ledger: CaptureBook) -> None:
    said = ledger.refused("select gapless.refuse_uncapturable('nope', null)")
    assert said == ("GL404", 'there is no table "nope": name it as SQL does, schema and all')


NO_NAME = (
    'is no name of a table: write it as SQL does, such as public.orders or public."Order Lines"'
)
NAMES: dict[str | None, str | None] = {
    "box": "box", "public.box": "box", 'public."box"': "box", "Box": "box", '"My shop"."Box"': '"My shop"."Box"',
    "nope": None, '"Box"': None, "no.nope": None, None: None, "a.b.c.d": NO_NAME,
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_table_that_a_text_names(ledger: CaptureBook, name: str | None) -> None:
    found = NAMES[name]
    if found == NO_NAME:
        said = ledger.refused("select gapless.table_of(%s)", name)
        assert said == ("GL400", f'"{name}" {NO_NAME}')
    else:
        assert ledger.value("select gapless.table_of(%s)::regclass::text", name) == found


TREES = {
    "box": {"box": 0},
    "p": {"p": 0, "p1": 1, "p2": 1, "p21": 2},
    "p2": {"p2": 0, "p21": 1},
    "p21": {"p21": 0},
    "parent": {"parent": 0},
}


@pytest.mark.parametrize("table", TREES)
def test_a_table_and_its_partitions(ledger: CaptureBook, table: str) -> None:
    query = "select relid::regclass::text, level from gapless.captured_tables(%s::regclass)"
    assert dict(ledger.rows(query, table)) == TREES[table]


KEYS: dict[str, list[str] | str] = {
    "{id}": ["", "id", ""],
    "a{id}b": ["a", "id", "b"],
    "{id}/{n}": ["", "id", "/", "n", ""],
    "{id}{n}": ["", "id", "", "n", ""],
    "{{{id}}}": ["{", "id", "}"],
    "{{id}}{id}": ["{id}", "id", ""],
    "}}{{{n m}": ["}{", "n m", ""],
    '{a"%b}': ["", 'a"%b', ""],
    "{id}" * 32: ["", "id"] * 32 + [""],
    "{id}" + "x" * 3996: ["", "id", "x" * 3996],
    "id": 'key "id" names no column, so all events would have one key: write {id} for column id',
    "": 'key "" names no column, so all events would have one key: write {id} for column id',
    "{{id}}": 'key "{{id}}" names no column, so all events would have one key: write {id} for column id',
    "{id": 'key "{id" has a lone {: columns are {id}, braces are {{ and }}',
    "{id}}": 'key "{id}}" has a lone }: columns are {id}, braces are {{ and }}',
    "{}": 'key "{}" has a lone {: columns are {id}, braces are {{ and }}',
    "{a}" * 33: f'key "{"{a}" * 20}…" is too long: at most 32 columns and 4000 characters',
    "{a}"
    + "x" * 3998: f'key "{"{a}" + "x" * 57}…" is too long: at most 32 columns and 4000 characters',
}


@pytest.mark.parametrize("written", KEYS, ids=lambda each: str(each)[:20])
def test_the_parts_of_a_key(ledger: CaptureBook, written: str) -> None:
    found = KEYS[written]
    if isinstance(found, str):
        assert ledger.refused("select gapless.key_parts(%s)", written) == ("GL400", found)
    else:
        assert ledger.value("select gapless.key_parts(%s)", written) == found


HAS = 'dropped has no column "{}": it has id, "a%b", "A"'
COLUMNS: list[tuple[list[str | None] | None, list[int] | str | None, list[int] | None]] = [
    (None, None, None),
    ([], [], []),
    (["id"], [1], [1]),
    (["A", "id", "a%b", "id"], [4, 1, 3, 1], [4, 1, 3, 1]),
    (["id", "a"], HAS.format("a"), [1, 0]),
    (["gone"], HAS.format("gone"), [0]),
    (["........pg.dropped.2........"], HAS.format("........pg.dropped.2........"), [0]),
    (["ctid", "A"], HAS.format("ctid"), [0, 4]),
    ([None], HAS.format("<NULL>"), [0]),
]


@pytest.mark.parametrize(("names", "strictly", "gone_too"), COLUMNS)
def test_the_numbers_of_columns_by_their_names(
    ledger: CaptureBook, names: list[str | None] | None, strictly: Any, gone_too: list[int] | None
) -> None:
    strict = "select gapless.column_numbers('dropped'::regclass, %s::text[])"
    if isinstance(strictly, str):
        assert ledger.refused(strict, names) == ("GL400", strictly)
    else:
        assert ledger.value(strict, names) == strictly
    assert ledger.value(strict.replace("column_numbers", "numbers_of"), names) == gone_too


CHECKED = "select * from gapless.checked_capture(%s, %s, %s, %s::text[], %s)"
WRONG: list[tuple[tuple[Any, ...], tuple[str, str]]] = [
    (("nope", "outbox", None, None, "all"), ("GL404", 'there is no table "nope": name it as SQL does, schema and all')),
    (("v", "outbox", None, None, "all"), ("GL400", "v is a view: capture the tables that it reads")),
    (
        ("box", None, None, None, "all"),
        ("GL400", "name the topic that the changes of public.box go to: topic => 'orders.changes'"),
    ),
    (
        ("box", "nope", None, None, "all"),
        ("GL404", 'topic "nope" does not exist: create it with gapless topics create nope'),
    ),
    (("box", "outbox", None, None, "some"), ("GL400", "old is 'none', 'changed' or 'all', not 'some'")),
    (("box", "outbox", None, None, None), ("GL400", "old is 'none', 'changed' or 'all', not null")),
    (
        ("box", "outbox", None, [], "all"),
        ("GL400", "columns is empty: name those that the payload of public.box has, or leave columns out"),
    ),
    (("box", "outbox", None, ["x"], "all"), ("GL400", 'box has no column "x": it has id, a, b, c')),
    (("box", "outbox", "{x}", None, "all"), ("GL400", 'box has no column "x": it has id, a, b, c')),
    (
        ("box", "outbox", "x", None, "all"),
        ("GL400", 'key "x" names no column, so all events would have one key: write {id} for column id'),
    ),
    (
        ("keyless", "outbox", None, None, "all"),
        ("GL400", "public.keyless has no primary key: name a column that keeps its events in order, key => '{column}'"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "said"), WRONG)
def test_what_is_no_sense_to_capture(
    ledger: CaptureBook, asked: tuple[Any, ...], said: tuple[str, str]
) -> None:
    assert ledger.refused(CHECKED, *asked) == said


# What is asked for, and how it is noted: table, topic, key, its parts and numbers, columns and numbers, old.
ASKED: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = [
    (("box", "other", None, None, "all"), ("public.box", "other", None, None, None, None, None, "all")),
    (
        ('"My shop"."Box"', "outbox", None, ["a"], "none"),
        ('"My shop"."Box"', "outbox", None, None, None, ["a"], [2], "none"),
    ),
    (
        ("keyless", "outbox", "{b}-{{{a}", ["b", "a"], "changed"),
        ("public.keyless", "outbox", "{b}-{{{a}", ["", "b", "-{", "a", ""], [2, 1], ["b", "a"], [2, 1], "changed"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "noted"), ASKED)
def test_what_is_noted_of_a_capture(
    ledger: CaptureBook, asked: tuple[Any, ...], noted: tuple[Any, ...]
) -> None:
    columns = (
        "table_name, (select name from gapless.topic t where t.topic_id = c.topic_id), key, key_parts, key_numbers,"
        " columns, column_numbers, old"
    )
    assert ledger.row(CHECKED.replace("*", columns) + " c", *asked) == noted
    found = ledger.value(CHECKED.replace("*", "table_id"), *asked)
    assert found == ledger.value("select %s::regclass::oid", asked[0])


@pytest.mark.parametrize("partitions", [1, 2, 3, 16])
def test_a_key_for_each_partition(ledger: CaptureBook, partitions: int) -> None:
    found = ledger.rows(
        "select k, gapless.partition_of(k, %s) from unnest(gapless.keys_of_partitions(%s)) with ordinality u (k, n) order by n",
        partitions, partitions,
    )  # fmt: skip
    assert [place for _, place in found] == list(range(partitions))
    first = ledger.value(
        "select array_agg(w order by p) from (select distinct on (p) p, w from (select 'truncate-' || n as w, n,"
        " gapless.partition_of('truncate-' || n, %s) as p from generate_series(0, 500) n) x order by p, n) y",
        partitions,
    )
    assert [word for word, _ in found] == first, "of each the first word that falls into it"


def test_a_virtual_column_is_none_to_a_trigger(ledger: CaptureBook) -> None:
    if ledger.conn.info.server_version < 180000:
        return  # there are none
    ledger.run(
        "create table public.g (id int primary key, s int generated always as (id) stored, v int generated always as (id) virtual)"
    )
    strict = "select gapless.column_numbers('g'::regclass, %s::text[])"
    assert ledger.value(strict, ["s", "id"]) == [2, 1]
    assert ledger.refused(strict, ["id", "v"]) == (
        "GL400", 'column "v" of g is virtual, so no trigger sees it: leave it out, or make it stored',
    )  # fmt: skip
    made = ledger.record("g", columns=None)
    query = f"select gapless.captured_columns({RECORD}, 'g'::regclass)"
    assert ledger.value(query, made) == "r.id, r.s"
