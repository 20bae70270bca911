"""Which column of a table gives its rows their order, and which ones an event has: indexes and maps nearly right."""

from typing import Any

import pytest

from features.attach.boxes import KINDS, NO_ID, NO_UNIQUE, Boxes

MORE = KINDS

# Table, what is named, and which column it is, or why none.
IDS: list[tuple[str, str | None, str, bool]] = [
    ("box", None, "id", True),
    ("small", None, "id", True),
    ("small", "n", "n", True),
    ("pair", "c", "c", True),
    ("odd", "a", "a", True),
    ('"My shop"."Box"', None, "The id", True),
    ("pair", None, NO_ID.format("pair"), False),
    ("keyless", None, NO_ID.format("keyless"), False),
    ("keyless", "id", NO_UNIQUE.format("id", "keyless"), False),
    ("pair", "a", NO_UNIQUE.format("a", "pair"), False),
    ("pair", "b", NO_UNIQUE.format("b", "pair"), False),
    ("pair", "d", NO_UNIQUE.format("d", "pair"), False),
    ("pair", "e", NO_UNIQUE.format("e", "pair"), False),
    ("pair", "f", 'pair has no column "f": it has a, b, c, d, e', False),
    ("odd", None, 'odd has no ordered id: column "id" is numeric, not of whole numbers; name one that is (--id)', False),
    (
        "odd", "b",
        'some rows of odd have no "b", so they have no place in its order: fill it, or name another (--id)', False,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("table", "wanted", "said", "fits"), IDS)
def test_which_column_gives_the_order(
    boxes: Boxes, table: str, wanted: str | None, said: str, fits: bool
) -> None:
    statement = "select gapless.attached_id(%s::regclass, %s)"
    if fits:
        assert boxes.value(statement, table, wanted) == said
    else:
        assert boxes.refused(statement, table, wanted) == ("GL400", said)


def test_an_index_that_was_never_finished_makes_nothing_unique(boxes: Boxes) -> None:
    boxes.run(
        "update pg_index set indisvalid = false where indexrelid = 'public.small_n_key'::regclass"
    )
    said = boxes.refused("select gapless.attached_id('public.small'::regclass, 'n')")
    assert said == ("GL400", NO_UNIQUE.format("n", "small"))


COLUMNS = ("key", "host_id", "user_id", "transaction_id", "event_type", "payload", "headers")
NONE: dict[str, str | None] = dict.fromkeys(COLUMNS)
OWN: dict[str, str | None] = {each: each for each in COLUMNS}
MAPS: list[tuple[str, str | None, dict[str, str | None] | str]] = [
    ("whole", None, OWN),
    ("whole", "{}", OWN),
    ("box", "{}", NONE),
    ("whole", '{"payload": null, "key": null}', OWN | {"payload": None, "key": None}),
    ("whole", '{"payload": "t"}', OWN | {"payload": "t"}),
    ("whole", '{"payload": "v", "key": "n"}', OWN | {"payload": "v", "key": "n"}),
    ("whole", '{"payload": "headers", "headers": "payload"}', OWN | {"payload": "headers", "headers": "payload"}),
    ("wrong", '{"payload": null}', NONE),
    ("box", '{"payload": "body"}', NONE | {"payload": "body"}),
    ("box", '{"host_id": "customer"}', NONE | {"host_id": "customer"}),
    ("box", "[]", 'map is an object such as {"payload": "body"}, not []'),
    ("box", '"key"', 'map is an object such as {"payload": "body"}, not "key"'),
    ("box", '{"key": "customer", "body": "body"}', 'an event has no column "body": map one of ' + ", ".join(COLUMNS)),
    ("box", '{"key": "x"}', 'box has no column "x": it has id, customer, body'),
    ("box", '{"payload": "id"}', 'column "id" is bigint, which is no JSON and no text: map another, or none (--map payload=)'),
    ("whole", '{"headers": "t"}', 'column "t" is text, which is no JSON: map another, or none (--map headers=)'),
    ("wrong", None, 'column "payload" is integer, which is no JSON and no text: map another, or none (--map payload=)'),
    ("box", '{"payload": "ctid"}', 'box has no column "ctid": it has id, customer, body'),
]  # fmt: skip


@pytest.mark.parametrize(("table", "asked", "said"), MAPS)
def test_which_columns_an_event_has(boxes: Boxes, table: str, asked: str | None, said: Any) -> None:
    statement = "select gapless.attached_map(%s::regclass, %s::jsonb)"
    if isinstance(said, str):
        assert boxes.refused(statement, table, asked) == ("GL400", said)
    else:
        assert boxes.value(statement, table, asked) == said


def test_a_virtual_column_is_not_taken_by_its_name(boxes: Boxes) -> None:
    if boxes.conn.info.server_version < 180000:
        return  # there are none
    boxes.run(
        "create table public.g (id int primary key, key int generated always as (id) virtual,"
        " user_id int generated always as (id) stored)"
    )
    found = boxes.value("select gapless.attached_map('g'::regclass, null)")
    assert found == NONE | {"user_id": "user_id"}
