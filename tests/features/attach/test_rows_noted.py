"""What attaching notes, what is wrong with an attachment, and what remains when it ends, beside a twin of it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from features.attach.boxes import WISH, Boxes
from gapless.db.connect import connect

MORE = """
create table public.changed (id int primary key, customer text, body jsonb);
insert into public.changed values (1), (2), (3);
create table public.places (group_id text, next_offset bigint);
create table public.other_places (group_id text, next_offset bigint);
"""


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Boxes]:
    with connect(module_dsn, role="test") as conn:
        boxes = Boxes(conn, MORE)
        boxes.run("update public.changed set body = '1' where id < 3")
        boxes.run("delete from public.changed where id = 3")
        boxes.counted("public.changed", 2, 1)
        yield boxes


@pytest.fixture
def boxes(shared: Boxes) -> Iterator[Boxes]:
    """Twin is attached, to the other topic, with a row, a note, a group, and a trigger that is off."""
    with shared.undone():
        shared.fill(1, table="twin")
        number = shared.live("public.twin", "other")
        shared.run("alter table public.twin disable trigger gapless_attach")
        miss = "insert into gapless.attached_miss (attachment_id, rows, error) values (%s, 3, 'no')"
        shared.run(miss, number)
        shared.run("insert into gapless.attached_group values (%s, 'mail', 'ready')", number)
        yield shared


MAP = '{"key": "customer", "payload": "body"}'
NOTE = (
    f'attached public.box outbox id {MAP} begin copied {{"id": 1, "key": 2, "payload": 3}} before'
)
ATTACH = "select gapless.attach('public.box', 'outbox', null, %s::jsonb, null, false)"
PLACED = '{{"next": "next_offset", "group": "group_id", "table": "public.{}", "partition": null}}'


def test_a_table_is_attached(boxes: Boxes) -> None:
    locked = (
        "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
        " and classid = 'gapless.attached'::regclass and objid = 'public.box'::regclass"
    )
    assert boxes.value(locked) == 0
    assert boxes.diff(ATTACH, json.dumps(WISH)) == [
        f"+ {NOTE} 0",
        '+ audit attach outbox {"table": "public.box"}',
    ]
    number = "select attachment_id from gapless.attached where table_name = 'public.box'"
    assert boxes.value(ATTACH, json.dumps(WISH)) == boxes.value(number)
    assert boxes.value(locked) == 1, "of two that attach it at once one waits"


@pytest.mark.parametrize(("despite", "before"), [("true", ""), ("null", " 0"), ("false", " 0")])
def test_whether_changes_do_harm(boxes: Boxes, despite: str, before: str) -> None:
    said = ATTACH.replace("false", despite)
    assert boxes.diff(said, json.dumps(WISH))[0] == f"+ {NOTE}{before}"
    boxes.fill(1)
    assert boxes.diff(said, json.dumps(WISH)) == []
    boxes.run("update gapless.attached set changes_before = 7 where table_name = 'public.box'")
    went = [f"- {NOTE} 7", f"+ {NOTE}"] if not before else []
    assert sorted(boxes.diff(said, json.dumps(WISH))) == sorted(went)


def test_a_table_that_changes_is_refused_once(boxes: Boxes) -> None:
    """One that is attached already is not asked again."""
    for name in ("one", "two"):  # what is rolled back is counted of a table, too
        boxes.run(f"create table public.{name} (like public.box including all)")
        boxes.fill(1, table=name)
    number = boxes.attach("public.one")
    boxes.run("update public.one set body = '2'; delete from public.two")
    assert boxes.attach("public.one") == number
    said = boxes.refused(ATTACH.replace("public.box", "public.two"), json.dumps(WISH))
    assert said[0] == "GL400"
    assert said[1].startswith("rows of two were deleted, and the log has a row as it was inserted")
    short = "select gapless.attach('public.two', 'single')"
    assert boxes.refused(short) == said, "nobody has said that it does no harm"
    boxes.attach("public.two", despite=True)


def test_places_stay_until_others_are_said(boxes: Boxes) -> None:
    said = ATTACH.replace("null, false", "%s::jsonb, false")
    boxes.attach()
    one, two = (
        NOTE.replace("begin", f"{PLACED.format(each)} begin") for each in ("places", "other_places")
    )
    assert boxes.diff(said, json.dumps(WISH), '{"table": "places"}') == [
        f"+ {one} 0",
        f"- {NOTE} 0",
    ]
    assert boxes.diff(ATTACH, json.dumps(WISH)) == []
    assert boxes.diff(said, json.dumps(WISH), '{"table": "other_places"}') == [
        f"+ {two} 0",
        f"- {one} 0",
    ]


AGAIN = "public.box is attached already, to another topic or by other columns: gapless attach remove public.box ends that"
# What was done to the table, and what is said of it then: topic, id, map; True: it is taken.
OTHERS: list[tuple[str, str, str, dict[str, str | None], bool]] = [
    ("", "outbox", "id", WISH, True),
    ("", "other", "id", WISH, False),
    ("", "outbox", "no", WISH, False),
    ("", "outbox", "id", {"key": "customer"}, False),
    ("", "outbox", "id", {"key": "body", "payload": "body"}, False),
    ("alter table box rename body to doc", "outbox", "id", {"key": "customer", "payload": "doc"}, True),
    ("alter table box rename id to nr", "outbox", "nr", WISH, True),
    ("alter table box rename body to doc", "outbox", "id", {"key": "customer"}, False),
    ("alter table box drop body; alter table box add doc text", "outbox", "id", {"key": "doc", "payload": "doc"}, True),
    ("alter table box drop body", "other", "id", {"key": "customer"}, False),
    ("alter table box drop body", "outbox", "no", {"key": "customer"}, False),
    ("alter table box drop id", "outbox", "no", WISH, False),
]  # fmt: skip


@pytest.mark.parametrize(("done", "topic", "id_column", "columns", "is_taken"), OTHERS)
def test_what_another_way_is(
    boxes: Boxes, done: str, topic: str, id_column: str, columns: dict[str, str | None], is_taken: bool
) -> None:  # fmt: skip
    boxes.run("alter table public.box add no int unique")
    number = boxes.live()
    if done:
        boxes.run(done)
    words = (topic, id_column, json.dumps(columns))
    said = "select gapless.attach('public.box', %s, %s, %s::jsonb, null, false)"
    if not is_taken:
        assert boxes.refused(said, *words) == ("GL409", AGAIN)
        return
    changed = boxes.diff(said, *words)
    noted = '+ audit map outbox {"table": "public.box"}'
    assert (noted in changed) == ("drop" in done)
    assert boxes.value(said, *words) == number
    found = boxes.row(
        "select map ->> 'key', map ->> 'payload', id_column, column_numbers from gapless.attached"
        " where table_name = 'public.box'"
    )
    numbers = {
        name: boxes.value("select attnum from pg_attribute where attrelid = 'box'::regclass and attname = %s", each)
        for name, each in {"id": id_column, **columns}.items()
    }  # fmt: skip
    assert found == (columns["key"], columns.get("payload"), id_column, numbers)
    expected = 0 if not done else 2 if "drop" not in done else 3
    assert len(changed) == expected


def test_a_table_of_another_number(boxes: Boxes) -> None:
    """As after a restore: it is noted which one it is now."""
    number = boxes.attach()
    boxes.run("update gapless.attached set table_id = 0 where attachment_id = %s", number)
    assert boxes.diff(ATTACH, json.dumps(WISH)) == [f"+ {NOTE} 0", f"- {NOTE} 0 elsewhere"]


GONE = 'column "{}" ({}) is gone: nothing is copied'
OFF = "alter table public.box disable trigger gapless_attach"
MISS = (
    "insert into gapless.attached_miss (attachment_id, rows, error)"
    " select attachment_id, {}, '{}' from gapless.attached where table_name = 'public.box'"
)
HERE = "where table_name = 'public.box'"
NEW_NAME = "alter table public.box rename body to doc"
PROBLEMS: list[tuple[str, tuple[str, str] | None]] = [
    ("", None),
    ("alter table public.box enable always trigger gapless_attach", None),
    ("alter table public.box add more text; alter table public.box rename more to even", None),
    (f"update gapless.attached set topic_id = 4711 {HERE}", ("topic id 4711 is gone: its events wait in gapless topics unrouted", "again")),
    ("alter table public.box drop body", (GONE.format("body", "payload"), "map")),
    ("alter table public.box drop body, drop customer", (GONE.format("customer", "key"), "map")),
    ("alter table public.box drop body, drop customer, drop id", (GONE.format("id", "id"), "again")),
    (f"update gapless.attached set topic_id = 4711 {HERE}; alter table public.box drop body", ("topic id 4711 is gone: its events wait in gapless topics unrouted", "again")),
    (f"update gapless.attached set live_ts = null {HERE}", ("it is not copied to its end yet", "mend")),
    (f"update gapless.attached set live_ts = null {HERE}; {OFF}", ("it is not copied to its end yet", "mend")),
    (f"update gapless.attached set live_ts = null {HERE}; alter table public.box drop body", (GONE.format("body", "payload"), "map")),
    ("drop trigger gapless_attach on public.box", ("its trigger is gone", "mend")),
    (OFF, ("its trigger is disabled", "mend")),
    ("alter table public.box enable replica trigger gapless_attach", ("its trigger is disabled", "mend")),
    (f"{OFF}; {MISS.format(1, 'no')}", ("its trigger is disabled", "mend")),
    (MISS.format(1, "no"), ("1 row was not copied: no", "mend")),
    (f"{MISS.format(1, 'no')}; {MISS.format(2, 'why')}; {NEW_NAME}", ("3 rows were not copied: why", "mend")),
    (NEW_NAME, ('column "body" (payload) is called "doc" now', "mend")),
    (f"{NEW_NAME}; alter table public.box rename customer to c", ('column "customer" (key) is called "c" now', "mend")),
]  # fmt: skip


@pytest.mark.parametrize(("done", "said"), PROBLEMS)
def test_what_is_wrong_with_it(boxes: Boxes, done: str, said: tuple[str, str] | None) -> None:
    boxes.live()
    if done:
        boxes.run(done)
    query = "select p.* from gapless.attached a, gapless.attachment_problem(a, 'public.box'::regclass) p where a.table_name = 'public.box'"
    assert boxes.row(query) == said


def test_without_its_table_nothing_else_counts(boxes: Boxes) -> None:
    boxes.live()
    query = f"select p.* from gapless.attached a, gapless.attachment_problem(a, null) p {HERE}"
    assert boxes.row(query) == ("the table is gone", "remove")


# How many changes were no news, and how many are named of 2 updates and a delete.
CHANGES: list[tuple[int | None, str | None]] = [
    (None, None),
    (0, "3 rows were"),
    (1, "2 rows were"),
    (2, "1 row was"),
    (3, None),
    (4, "3 rows were"),
]


@pytest.mark.parametrize(("before", "said"), CHANGES)
def test_changes_that_are_news(boxes: Boxes, before: int | None, said: str | None) -> None:
    """What was counted before, unless the server counts anew since."""
    boxes.live("public.changed", despite=True)
    of = "where table_name = 'public.changed'"
    boxes.run(f"update gapless.attached set changes_before = %s {of}", before)
    query = f"select p.* from gapless.attached a, gapless.attachment_problem(a, a.table_id) p {of}"
    text = f"{said} updated or deleted, and the log has a row as it was inserted"
    assert boxes.row(query) == (None if said is None else (text, "despite"))


DETACH = "select gapless.detach(%s)"


def test_an_attachment_ends_alone(boxes: Boxes) -> None:
    boxes.fill(1, 2)
    boxes.live()
    boxes.run(MISS.format(2, "why"))
    boxes.run(
        f"insert into gapless.attached_group select attachment_id, 'mail', 'ready' from gapless.attached {HERE}"
    )
    changed = boxes.diff(DETACH, "public.box")
    assert changed == [
        '+ audit detach outbox {"table": "public.box"}',
        f"- {NOTE} 0".replace("begin copied", "2 live"),
        "- group public.box mail ready",
        "- miss public.box 2 why",
        "- row public.box 1 is 1",
        "- row public.box 2 is 2",
        "- trigger box gapless_attach O public.box",
    ]
    assert boxes.diff(DETACH, "public.box") == []
    assert boxes.value(DETACH, "public.box") is False
    assert boxes.value(DETACH, "public.twin") is True


def test_one_that_is_not_live_takes_nobody_s_trigger(boxes: Boxes) -> None:
    boxes.attach()
    boxes.run(
        "create trigger gapless_attach after insert on public.box"
        " for each statement execute function gapless.attach_rows('4711')"
    )
    assert boxes.diff(DETACH, "public.box") == [
        '+ audit detach outbox {"table": "public.box"}',
        f"- {NOTE} 0",
    ]


def test_a_table_that_was_dropped_is_named_as_it_was(boxes: Boxes) -> None:
    boxes.live()
    boxes.run("create table public.third (id int primary key)")
    boxes.live("public.third", "single", map={})
    boxes.run("drop table public.box, public.third")
    nothing = 'there is no table "public.{}": name it as SQL does, schema and all; gapless attach lists them'
    for name in ("bo", "nope"):
        assert boxes.refused(DETACH, f"public.{name}") == ("GL404", nothing.format(name))
    assert boxes.diff(DETACH, "public.box") == [
        '+ audit detach outbox {"table": "public.box"}',
        f"- {NOTE} 0 elsewhere".replace("begin copied", "begin live"),
    ]
    assert boxes.refused(DETACH, "public.box") == ("GL404", nothing.format("box"))
    assert boxes.value(DETACH, "public.third") is True


@pytest.mark.parametrize("group", [None, "mail"])
def test_what_is_done_is_in_the_audit(boxes: Boxes, group: str | None) -> None:
    call: Any = "select gapless.note_attach('go', gapless.topic_id('other'), 'public.x', %s)"
    said = "+ audit go mail other" if group else "+ audit go other"
    assert boxes.diff(call, group) == [f'{said} {{"table": "public.x"}}']
