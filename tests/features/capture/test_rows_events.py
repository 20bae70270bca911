"""What is published of each row of a statement, and with which key, next to rows that it leaves alone."""

from collections.abc import Iterator
from typing import Any

import pytest

from features.capture.ledger import CaptureBook

MORE = """
create table public.loose (a int, b int);
create table public.turn (id int primary key deferrable, n text);
create table public.pair (z text, id int, n int, primary key (id, z));
create table public.inc (id int, n int, m int, primary key (id) include (n));
create unique index on public.inc (m);
create table public.wide (gone int, id int primary key, "a%b" int, twice int generated always as (id * 2) stored);
alter table public.wide drop gone;
create table public.p (id int primary key, n int) partition by range (id);
create table public.p1 partition of public.p for values from (0) to (10);
create schema "My shop";
create table "My shop"."P 2" partition of public.p for values from (10) to (20);
"""


@pytest.fixture
def ledger(shared: CaptureBook) -> Iterator[CaptureBook]:
    """Twin has the same rows, and is captured, too."""
    with shared.undone():
        for table in ("box", "twin"):
            shared.run(
                f"insert into public.{table} values (1, 'x', 10, null), (2, 'y', 20, 'c'), (3, 'x', 30, 'c')"
            )
        shared.capture("public.twin", "other")
        yield shared


def events(ledger: CaptureBook, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement; return key, type, new and old of what it publishes, in that order."""
    last = ledger.value("select coalesce(max(id), 0) from gapless.outbox_message_t")
    changed = ledger.diff(statement)
    rows = ledger.rows(
        "select o.key, o.event_type, o.payload, t.name from gapless.outbox_message_t o join gapless.topic t using (topic_id)"
        " where o.id > %s order by o.id",
        last,
    )
    assert len(changed) == len(rows), "nothing else changes"
    assert {row[3] for row in rows} <= {"outbox"}
    for _, kind, payload, _ in rows:
        assert set(payload) - {"partition"} == {"op", "new", "old"}
        assert payload["op"] == kind
    return [(key, kind, payload["new"], payload["old"]) for key, kind, payload, _ in rows]


def row(number: int, a: str | None, b: int | None, c: str | None) -> dict[str, Any]:
    return {"id": number, "a": a, "b": b, "c": c}


ONE, TWO, THREE = row(1, "x", 10, None), row(2, "y", 20, "c"), row(3, "x", 30, "c")
Events = list[tuple[Any, ...]]
# How box is captured, a statement, and the events of it.
STATEMENTS: list[tuple[dict[str, Any], str, Events]] = [
    ({}, "insert into box values (5, 'v', 1, 'w'), (4, null, null, null)",
     [("5", "insert", row(5, "v", 1, "w"), None), ("4", "insert", row(4, None, None, None), None)]),
    ({}, "insert into box select 9 where false", []),
    ({}, "delete from box where id = 9", []),
    ({}, "update box set a = 'q' where id = 9", []),
    ({}, "delete from box where id > 1", [("2", "delete", None, TWO), ("3", "delete", None, THREE)]),
    ({}, "update box set b = b + 1 where id < 3",
     [("1", "update", row(1, "x", 11, None), {"b": 10}), ("2", "update", row(2, "y", 21, "c"), {"b": 20})]),
    ({}, "update box set b = b, c = null",
     [("2", "update", row(2, "y", 20, None), {"c": "c"}), ("3", "update", row(3, "x", 30, None), {"c": "c"})]),
    ({"old": "all"}, "update box set a = 'z' where id = 1", [("1", "update", row(1, "z", 10, None), ONE)]),
    ({"old": "none"}, "update box set a = 'z' where id = 1", [("1", "update", row(1, "z", 10, None), None)]),
    ({"old": "none"}, "delete from box where id = 1", [("1", "delete", None, ONE)]),
    ({"columns": ["b", "id"]}, "update box set a = 'z', c = 'z'", []),
    ({"columns": ["b", "id"]}, "update box set a = 'z', b = 7 where id = 2",
     [("2", "update", {"id": 2, "b": 7}, {"b": 20})]),
    ({"columns": ["b"]}, "insert into box values (4, 'a', 5)", [("4", "insert", {"b": 5}, None)]),
    ({}, "update box set id = id + 2 where id > 1",
     [("2", "delete", None, TWO), ("4", "insert", row(4, "y", 20, "c"), None),
      ("3", "delete", None, THREE), ("5", "insert", row(5, "x", 30, "c"), None)]),
    ({"key": "{a}"}, "update box set a = case id when 1 then 'n' else a end, b = 5",
     [("x", "delete", None, ONE), ("y", "update", row(2, "y", 5, "c"), {"b": 20}),
      ("x", "update", row(3, "x", 5, "c"), {"b": 30}), ("n", "insert", row(1, "n", 5, None), None)]),
    ({"key": "{a}"}, "update box set a = null where id = 2",
     [("y", "delete", None, TWO), ("", "insert", row(2, None, 20, "c"), None)]),
    ({"key": "{{{c}-{id}}}"}, "delete from box where id < 3",
     [("{-1}", "delete", None, ONE), ("{c-2}", "delete", None, TWO)]),
    ({"key": "it''s '{id}"}, "delete from box where id = 1", [("it''s '1", "delete", None, ONE)]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "statement", "said"), STATEMENTS)
def test_what_a_statement_publishes(
    ledger: CaptureBook, words: dict[str, Any], statement: str, said: Events
) -> None:
    ledger.capture(**words)
    found = events(ledger, statement)
    if "id + 2" in statement:  # deletes come first, whatever the order of rows
        said = sorted(said, key=lambda each: each[1])
    assert found == said


def test_without_a_primary_key_an_update_is_two_events(ledger: CaptureBook) -> None:
    ledger.run("insert into loose values (1, 1), (1, 2), (2, 1)")
    ledger.capture("public.loose", key="{a}")
    assert events(ledger, "update loose set b = b where a = 2") == [
        ("2", "delete", None, {"a": 2, "b": 1}),
        ("2", "insert", {"a": 2, "b": 1}, None),
    ]
    found = events(ledger, "update loose set b = 7 where a = 1")
    assert [each[:2] for each in found] == [("1", "delete")] * 2 + [("1", "insert")] * 2
    assert [each[3] for each in found[:2]] == [{"a": 1, "b": 1}, {"a": 1, "b": 2}]


def test_a_key_that_was_dropped(ledger: CaptureBook) -> None:
    """All events have one key, so that they stay in order; of a template's column nothing remains."""
    ledger.capture()
    ledger.run("alter table box drop constraint box_pkey")
    assert [each[:2] for each in events(ledger, "insert into box values (7), (8)")] == [
        ("", "insert")
    ] * 2
    ledger.run("select gapless.release_capture('public.box')")
    ledger.capture(key="<{a}|{b}>")
    ledger.run("alter table box drop a")
    assert events(ledger, "delete from box where id = 3") == [
        ("<|30>", "delete", None, {"id": 3, "b": 30, "c": "c"})
    ]


NAMES = {"loose": None, "box": "concat(r.id)", "inc": "concat(r.id)", "wide": "concat(r.id)",
         "pair": "json_build_array(concat(r.id), concat(r.z))::text"}  # fmt: skip


@pytest.mark.parametrize("table", NAMES)
def test_what_a_row_is_known_by(ledger: CaptureBook, table: str) -> None:
    assert ledger.value("select gapless.identity_of(%s::regclass)", table) == NAMES[table]


def test_a_key_of_several_columns(ledger: CaptureBook) -> None:
    ledger.capture("public.pair")
    assert events(ledger, "insert into pair values ('b\"', 1, 0)") == [
        ('["1", "b\\""]', "insert", {"z": 'b"', "id": 1, "n": 0}, None)
    ]
    assert events(ledger, "update pair set n = 1") == [
        ('["1", "b\\""]', "update", {"z": 'b"', "id": 1, "n": 1}, {"n": 0})
    ]


def test_columns_that_come_and_go(ledger: CaptureBook) -> None:
    """In the table's order; a generated one is there, a dropped one is not."""
    ledger.capture("public.wide")
    assert events(ledger, 'insert into wide (id, "a%b") values (1, 2)') == [
        ("1", "insert", {"id": 1, "a%b": 2, "twice": 2}, None)
    ]
    ledger.run(
        "alter table wide drop twice; alter table wide add more text default 'm'; alter table wide rename \"a%b\" to b"
    )
    assert events(ledger, "update wide set b = 3") == [
        ("1", "update", {"id": 1, "b": 3, "more": "m"}, {"b": 2})
    ]


def test_truncate_is_told_in_each_partition(ledger: CaptureBook) -> None:
    ledger.capture()
    ledger.capture("public.p", "single")
    keys = ledger.value("select gapless.keys_of_partitions(2)")
    assert events(ledger, "truncate public.box") == [(key, "truncate", None, None) for key in keys]
    query = "select o.key, o.payload from gapless.outbox_message_t o where o.topic_id = gapless.topic_id(%s) order by o.id"
    ledger.run('truncate public.twin; truncate "My shop"."P 2"; truncate public.p1')
    said = {"op": "truncate", "new": None, "old": None}
    assert ledger.rows(query, "other") == [
        (key, said) for key in ledger.value("select gapless.keys_of_partitions(3)")
    ]
    assert ledger.rows(query, "single") == [
        ("truncate-0", said | {"partition": '"My shop"."P 2"'}),
        ("truncate-0", said | {"partition": "public.p1"}),
    ]
    found = "select gapless.truncate_statement(4711, 'box'::regclass, 'box'::regclass)"
    assert "from unnest(gapless.keys_of_partitions(1))" in ledger.value(found)
    ledger.run("truncate public.p")
    names = [payload.get("partition") for _, payload in ledger.rows(query, "single")[2:]]
    assert sorted(names, key=str) == ['"My shop"."P 2"', None, "public.p1"]


def test_partitions_and_what_was_one(ledger: CaptureBook) -> None:
    ledger.capture("public.p")
    assert events(ledger, "insert into p values (1, 1), (11, 1)") == [
        ("1", "insert", {"id": 1, "n": 1}, None),
        ("11", "insert", {"id": 11, "n": 1}, None),
    ]
    assert events(ledger, "insert into p1 values (2, 1)") == [
        ("2", "insert", {"id": 2, "n": 1}, None)
    ]
    assert events(ledger, 'update "My shop"."P 2" set n = 2') == [
        ("11", "update", {"id": 11, "n": 2}, {"n": 1})
    ]
    assert events(ledger, "update p set id = 12 where id = 1") == [
        ("1", "delete", None, {"id": 1, "n": 1}),
        ("12", "insert", {"id": 12, "n": 1}, None),
    ]
    ledger.run("alter table p detach partition p1")
    assert events(ledger, "insert into p1 values (3, 1)") == []
    assert events(ledger, "truncate p1") == []


def test_what_nobody_knows_fails_the_writer(ledger: CaptureBook) -> None:
    ledger.capture()
    ledger.run("delete from gapless.captured where table_name = 'public.box'")
    said = (
        "GL404",
        "public.box is captured, but its topic is not known any more: drop its triggers gapless_capture_*, or gapless capture add it anew",
    )
    for statement in (
        "insert into box values (9)",
        "update box set a = ''",
        "delete from box",
        "truncate box",
    ):
        assert ledger.refused(statement) == said
    for nothing in (
        "insert into box select 9 where false",
        "update box set a = '' where false",
        "delete from box where false",
    ):
        assert events(ledger, nothing) == []
    assert ledger.value(
        "select gapless.capture_statement(4711, 'box'::regclass, 'TRUNCATE') is null"
    )


def test_rows_that_change_places(ledger: CaptureBook) -> None:
    """What a row of that key was, and is: deletes first, then updates, then inserts."""
    ledger.run("insert into turn values (1, 'a'), (2, 'b'), (3, 'c')")
    ledger.capture("public.turn")
    found = events(ledger, "update turn set id = id + 1")
    assert found[0] == ("1", "delete", None, {"id": 1, "n": "a"})
    assert sorted(found[1:3]) == [
        ("2", "update", {"id": 2, "n": "a"}, {"n": "b"}),
        ("3", "update", {"id": 3, "n": "b"}, {"n": "c"}),
    ]
    assert found[3:] == [("4", "insert", {"id": 4, "n": "c"}, None)]
