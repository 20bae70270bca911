"""What is known of an attached table that was changed since, by number, by name and by trigger, beside its twin."""

import json
from typing import Any

import pytest

from features.attach.boxes import Boxes

MORE = """
create schema "My shop";
create table "My shop".box (id int primary key);
create table public.cols (id int primary key, a text, b text, c text);
create table public.marked (id int primary key, key text, "My col" text, headers jsonb);
create view public.seen as select 1 as id, 1 as a, 1 as b;
"""
RECORD = "jsonb_populate_record(null::gapless.attached, %s::jsonb)"
NUMBERS = {"id": 1, "key": 2, "payload": 3}


@pytest.fixture
def twins(boxes: Boxes) -> Boxes:
    """Twin is attached, with a note and a trigger that is off; box has none of that."""
    number = boxes.live("public.twin", "other")
    boxes.run("alter table public.twin disable trigger gapless_attach")
    boxes.run(
        "insert into gapless.attached_miss (attachment_id, rows, error) values (%s, 3, 'no')",
        number,
    )
    return boxes


def record(boxes: Boxes, table: str, **words: Any) -> str:
    """Return an attachment as JSON; elsewhere: it was made of a table of another number."""
    elsewhere = words.pop("elsewhere", False)
    number = 0 if elsewhere else boxes.value("select %s::regclass::oid", table)
    return json.dumps(
        {
            "attachment_id": 77,
            "table_name": f"public.{table}",
            "table_id": number,
            "topic_id": boxes.value("select gapless.topic_id('other')"),
            "id_column": "id",
            "map": {"key": "a", "payload": "b", "headers": None},
            "column_numbers": NUMBERS,
            **words,
        }
    )


SWAP = "alter table cols rename a to x; alter table cols rename b to a; alter table cols rename x to b;"
SECOND = "alter table cols rename a to z; alter table cols rename c to a;"
# What is done to a table whose columns a and b are key and payload, whether it is another one by now, and
# what the columns of id, key and payload are called then.
RENAMED: list[tuple[str, bool, tuple[str | None, ...]]] = [
    ("", False, ("id", "a", "b")),
    ("", True, ("id", "a", "b")),
    ("alter table cols rename a to x", False, ("id", "x", "b")),
    ("alter table cols rename a to x", True, ("id", None, "b")),
    ("alter table cols rename id to x", False, ("x", "a", "b")),
    ("alter table cols rename id to x", True, (None, "a", "b")),
    (f"{SECOND} alter table cols rename id to x; alter table cols rename b to y", False, ("x", "z", "y")),
    (SWAP, False, ("id", "b", "a")),
    (SWAP, True, ("id", "a", "b")),
    (SECOND, False, ("id", "z", "b")),
    (SECOND, True, ("id", "a", "b")),
    ("alter table cols drop a", False, ("id", None, "b")),
    ("alter table cols drop a", True, ("id", None, "b")),
    ("alter table cols drop a; alter table cols add a int", False, ("id", "a", "b")),
    (SWAP + "alter table cols drop b", False, ("id", None, "a")),
    (SWAP + "alter table cols drop b", True, ("id", "a", None)),
    ("alter table cols drop id; alter table cols rename c to id", False, ("id", "a", "b")),
]  # fmt: skip


@pytest.mark.parametrize(("done", "elsewhere", "now"), RENAMED)
def test_what_columns_are_called_now(
    boxes: Boxes, done: str, elsewhere: bool, now: tuple[str | None, ...]
) -> None:
    made = record(boxes, "cols", elsewhere=elsewhere)
    if done:
        boxes.run(done)
    found = boxes.rows(
        f"select c.* from gapless.attached_columns({RECORD}, 'cols'::regclass) c", made
    )
    wanted = {"id": ("id", now[0]), "key": ("a", now[1]), "payload": ("b", now[2])}
    assert {what: tuple(rest) for what, *rest in found} == wanted | {"headers": (None, None)}
    # What is put together of that: the names of before where nothing is there, and '' where another has it.
    there = {row[0] for row in boxes.rows(
        "select attname from pg_attribute where attrelid = 'cols'::regclass"
    )}  # fmt: skip
    named = [
        each if elsewhere else "" if new is None and each in there else new or each
        for each, new in zip(("id", "a", "b"), now, strict=True)
    ]
    assert boxes.row(
        "select n.id_column, n.map ->> 'key', n.map ->> 'payload', n.map ? 'headers', n.map ? 'id', n.table_name"
        f" from gapless.attached_now({RECORD}, 'cols'::regclass) n",
        made,
    ) == (*named, True, False, "public.cols")


def test_a_column_of_the_server_s_is_none(boxes: Boxes) -> None:
    made = record(boxes, "cols", map={"key": "ctid"}, column_numbers={})
    query = (
        f"select now from gapless.attached_columns({RECORD}, 'cols'::regclass) where what = 'key'"
    )
    assert boxes.row(query, made) == (None,)


@pytest.mark.parametrize(
    ("done", "numbers"),
    [
        ("", {"id": 1, "key": 2, "payload": 3}),
        ("alter table cols drop a", {"id": 1, "payload": 3}),
        ("alter table cols drop a; alter table cols add a int", {"id": 1, "key": 5, "payload": 3}),
        ("alter table cols rename id to x; alter table cols drop a; alter table cols drop b", {}),
    ],
)
def test_the_numbers_of_columns(boxes: Boxes, done: str, numbers: dict[str, int]) -> None:
    made = record(boxes, "cols", column_numbers={})
    if done:
        boxes.run(done)
    assert boxes.value(f"select gapless.attached_numbers({RECORD})", made) == numbers
    named = record(boxes, "box", id_column="ctid", map={"key": "tableoid"})
    assert boxes.value(f"select gapless.attached_numbers({RECORD})", named) == {}
    gone = record(boxes, "box", id_column="........pg.dropped.2........", map={})
    boxes.run("alter table box drop customer")
    assert boxes.value(f"select gapless.attached_numbers({RECORD})", gone) == {}


# A table, what its columns are mapped to, what is done to it, and how that is said again.
WORDS: list[tuple[str, dict[str, str | None], str, str]] = [
    ("cols", {"key": "a", "payload": "b"}, "", "other --id id --map key=a,payload=b"),
    ("cols", {}, "", "other --id id"),
    ("cols", {"key": None, "payload": None}, "", "other --id id"),
    ("cols", {"key": "a", "payload": "b"}, "alter table cols rename a to x", "other --id id --map key=x,payload=b"),
    ("cols", {"key": "a", "payload": "b"}, "alter table cols drop a", "other --id id --map key=COLUMN,payload=b"),
    ("cols", {"key": "a", "payload": "b"}, "alter table cols drop id", "other --id COLUMN --map key=a,payload=b"),
    ("marked", {"key": None, "headers": None, "user_id": None}, "", "other --id id --map headers=,key="),
    ("marked", {"key": None}, "alter table marked drop key", "other --id id"),
    ("marked", {"key": "key", "event_type": "My col"}, "", "other --id id --map 'event_type=My col,key=key'"),
    ("marked", {"key": "key"}, 'alter table marked rename id to "the id"', "other --id 'the id' --map key=key"),
]  # fmt: skip


@pytest.mark.parametrize(("table", "columns", "done", "said"), WORDS)
def test_how_an_attachment_is_said_again(
    boxes: Boxes, table: str, columns: dict[str, str | None], done: str, said: str
) -> None:
    numbers = {"id": 1} | {each: 2 if each == "key" else 3 for each, to in columns.items() if to}
    made = record(boxes, table, map=columns, column_numbers=numbers)
    if done:
        boxes.run(done)
    found = boxes.value(f"select gapless.attached_words({RECORD}, %s::regclass)", made, table)
    assert found == said


# What an attachment notes of its table, by number and name, and the table that it is.
TABLES: dict[str, tuple[str | None, str, str | None]] = {
    "its number": ("box", "public.nope", "box"),
    "its number before its name": ("box", "public.twin", "box"),
    "its name": (None, "public.box", "box"),
    "its name in a schema": (None, '"My shop".box', '"My shop".box'),
    "a name of nothing": (None, "public.nope", None),
    "a view's number": ("seen", "public.box", "box"),
    "a view's name": (None, "public.seen", None),
    "an index's name": (None, "public.box_pkey", None),
}


@pytest.mark.parametrize("name", TABLES)
def test_which_table_an_attachment_is_of(twins: Boxes, name: str) -> None:
    number, named, found = TABLES[name]
    made = record(twins, number or "box", elsewhere=number is None, table_name=named)
    query = f"select gapless.attached_table({RECORD})::regclass::text"
    assert twins.value(query, made) == found
    live = twins.live()
    made = record(twins, number or "box", attachment_id=live, table_name=named, elsewhere=True)
    assert twins.value(query, made) == "box", "by its trigger before all"


BY = "insert into gapless.attached (table_name, table_id, topic_id, id_column, map) values (%s, coalesce(%s::text::regclass::oid, 0), 1, 'id', '{}') returning attachment_id"
# Attachments by name and number that are noted, and which of them (counted from 0) is that of box.
NOTED: dict[str, tuple[list[tuple[str, str | None]], int | None]] = {
    "none": ([], None),
    "another's": ([("public.twin", "twin"), ("public.cols", "cols")], None),
    "by number": ([("public.cols", "cols"), ("public.old", "box"), ("public.twin", "twin")], 1),
    "by name": ([("public.cols", "cols"), ("public.box", None), ("public.twin", "twin")], 1),
    "by number first": ([("public.old", "box"), ("public.box", None)], 0),
    "by number first of all": ([("public.box", None), ("public.old", "box")], 1),
    "the newest": ([("public.box", "box"), ("public.box", "box")], 1),
    "not of another schema": ([('"My shop".box', None)], None),
}


@pytest.mark.parametrize("name", NOTED)
def test_which_attachment_a_table_has(twins: Boxes, name: str) -> None:
    noted, which = NOTED[name]
    numbers = [twins.value(BY, named, table) for named, table in noted]
    query = "select gapless.attachment_of('box'::regclass)"
    assert twins.value(query) == (None if which is None else numbers[which])
    trigger = "create trigger gapless_attach after insert on {} for each statement execute function gapless.attach_rows({})"
    twins.run(trigger.format("public.box", 999_999))  # of one that nobody knows
    assert twins.value(query) == (None if which is None else numbers[which])
    if which is not None:
        twins.run(trigger.format("public.cols", numbers[which]))
        assert twins.value(query) != numbers[which], "its trigger is on another table"
        twins.run(
            trigger.replace("gapless_attach", "gapless_attach_2").format(
                "public.box", numbers[which]
            )
        )
        assert twins.value(query) == numbers[which]


def test_triggers_and_the_numbers_they_carry(boxes: Boxes) -> None:
    made = boxes.live()
    boxes.run(
        "create function public.attach_rows() returns trigger language plpgsql as 'begin return null; end'"
    )
    for n, (function, word) in enumerate([
        ("gapless.attach_rows", "12"), ("gapless.attach_rows", "123456789"), ("gapless.attach_rows", "1234567890"),
        ("gapless.attach_rows", "x"), ("public.attach_rows", "13"), ("gapless.capture_rows", "14"),
    ]):  # fmt: skip
        boxes.run(
            f"create trigger t{n} after insert on public.twin for each statement execute function {function}('{word}')"
        )
    boxes.run("alter table public.twin disable trigger t0")
    found = boxes.rows(
        "select attachment_id, tgrelid::regclass::text, tgname::text, tgenabled from gapless.attach_triggers() order by 2, 3"
    )
    assert found == [
        (made, "box", "gapless_attach", b"O" if isinstance(found[0][3], bytes) else "O"),
        (12, "twin", "t0", b"D" if isinstance(found[0][3], bytes) else "D"),
        *[
            (each, "twin", f"t{n}", found[0][3])
            for n, each in enumerate([123456789, None, None], 1)
        ],
    ]


def test_an_attachment_by_its_number(twins: Boxes) -> None:
    number = twins.live()
    query = "select table_name, table_id::regclass::text, id_column, map ->> 'key' from gapless.require_attachment(%s)"
    assert twins.row(query, number) == ("public.box", "box", "id", "customer")
    twins.run("alter table box rename customer to client; alter table box rename to crate")
    assert twins.row(query, number) == ("public.box", "crate", "id", "client")
    twins.run("update gapless.attached set table_id = 0 where attachment_id = %s", number)
    assert twins.row(query, number)[1] == "crate"
    assert twins.refused(query, 4711) == (
        "GL404", "there is no attachment 4711: somebody has removed it",
    )  # fmt: skip
    twins.run("drop table crate")
    assert twins.refused(query, number) == (
        "GL404", "public.box is gone: gapless attach remove forgets it",
    )  # fmt: skip
