"""What an event has of a row of an attached table, and what becomes of a row that gives none."""

import json
from collections.abc import Iterator
from hashlib import md5
from typing import Any
from uuid import UUID

import pytest

from features.attach.boxes import LIVE, MARK, WISH, Boxes, unit

MORE = """
create table public.whole (
  id int primary key, key text, host_id uuid, user_id int, transaction_id text, event_type text, payload text,
  headers jsonb, tx uuid, j json, jb jsonb, d date
);
"""


@pytest.fixture
def boxes(shared: Boxes) -> Iterator[Boxes]:
    """Twin is attached, too, and before."""
    with shared.undone():
        shared.live("public.twin", "other", map={"key": "body", "payload": "body"})
        yield shared


TEXTS = [
    ('{"a": 1}', '{"a": 1}'),
    ("x y", '"x y"'),
    ("", '""'),
    ("null", "null"),
    ("7", "7"),
    (None, None),
]


@pytest.mark.parametrize(("text", "said"), TEXTS)
def test_a_text_as_json(boxes: Boxes, text: str | None, said: str | None) -> None:
    assert boxes.value("select gapless.as_json(%s)::text", text) == said


HOST = "6b1dc3a2-5a3f-4f4e-9f43-1fd2f6f9b0a1"
DIGEST = str(UUID(md5(b"tx").hexdigest()))
ROW: dict[str, Any] = {
    "key": "k", "host_id": HOST, "user_id": 5, "transaction_id": "tx", "event_type": "made", "payload": "[1]",
    "headers": '{"a": 1}',
}  # fmt: skip
# What the map says, what a row has; its event: key, host, user, transaction (own: of a copy its own, else none),
# type, payload and headers, where they are not those of ROW.
VALUES: list[tuple[dict[str, str | None], dict[str, Any], dict[str, str]]] = [
    ({}, {}, {}),
    ({}, {"key": None, "host_id": None, "user_id": None, "event_type": None},
     {"key": "-", "host_id": "-", "user_id": "-", "event_type": "-"}),
    ({"key": "user_id", "host_id": None}, {}, {"key": "5", "host_id": "-"}),
    ({"key": "d"}, {"d": "2026-02-01"}, {"key": "2026-02-01"}),
    ({"user_id": None, "event_type": None, "headers": None}, {}, {"user_id": "-", "event_type": "-", "headers": ""}),
    ({}, {"headers": None}, {"headers": ""}),
    ({}, {"headers": "[1]"}, {"headers": ""}),
    ({"headers": "j"}, {"j": '{"b": 2}'}, {"headers": '"b": 2, '}),
    ({}, {"transaction_id": None}, {"transaction_id": "own"}),
    ({"transaction_id": None}, {}, {"transaction_id": "own"}),
    ({"transaction_id": "tx"}, {"tx": HOST}, {"transaction_id": HOST}),
    ({"transaction_id": "tx"}, {"tx": None}, {"transaction_id": "own"}),
    ({}, {"payload": "no JSON"}, {"payload": '"no JSON"'}),
    ({"payload": "j"}, {"j": "[2]"}, {"payload": "[2]"}),
    ({"payload": "jb"}, {"jb": "[3]"}, {"payload": "[3]"}),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "row", "event"), VALUES)
def test_what_an_event_has(
    boxes: Boxes, columns: dict[str, str | None], row: dict[str, Any], event: dict[str, str]
) -> None:
    row = ROW | row
    insert = f"insert into public.whole (id, {', '.join(row)}) values ({', '.join(['%s'] * (len(row) + 1))})"
    boxes.run(insert, 1, *row.values())
    number = boxes.attach("public.whole", map={"key": "key", **columns})
    said = {"headers": '"a": 1, ', **{k: str(v) for k, v in ROW.items() if k != "headers"}, **event}
    if "transaction_id" not in event:
        said["transaction_id"] = DIGEST
    for n, statement, params in [(1, LIVE, (number, 9)), (2, insert, (2, *row.values()))]:
        own = unit(1, "whole") if n == 1 else "-"
        words = [own if said[each] == "own" else said[each] for each in ROW if each != "headers"]
        mark = MARK.format(n, "whole", "true" if n == 1 else "false")
        headers = "{" + said["headers"] + mark[1:]
        found = [each for each in boxes.diff(statement, *params) if "+ event" in each]
        assert found == [f"+ event outbox {' '.join(words)} {headers}"]


def test_without_a_payload_it_is_the_row(boxes: Boxes) -> None:
    boxes.fill(1)
    number = boxes.attach(map={"key": "customer"})
    found = [each for each in boxes.diff(LIVE, number, 9) if "+ event" in each]
    assert found == [
        f'+ event outbox c1 - - {unit(1)} - {{"id": 1, "body": 1, "customer": "c1"}} {MARK.format(1, "box", "true")}'
    ]


def test_an_id_that_is_used_again_is_another_row(boxes: Boxes) -> None:
    number = boxes.live()
    boxes.fill(1, 2)
    boxes.run("truncate public.box")
    changed = boxes.diff("insert into public.box values (1, 'c9', '9')")
    assert changed == [
        f"+ event outbox c9 - - - - 9 {MARK.format(1, 'box', 'false')}",
        "+ row public.box 1 is 9",
        "- row public.box 1 is 1",
    ]
    assert boxes.value("select gapless.copy_missed(%s)", number) == 0


GONE = 'column "customer" of public.box is gone, from which the key was copied'


def test_an_error_is_noted_and_no_writer_s(boxes: Boxes) -> None:
    number = boxes.live()
    boxes.run("alter table public.box drop customer")
    insert = "insert into public.box values (1, '1'), (2, '2')"
    with boxes.conn.transaction(force_rollback=True):
        assert boxes.diff(insert) == [f"+ miss public.box 2 {GONE}"]
    with boxes.conn.transaction(force_rollback=True):
        boxes.run("alter table gapless.attached_miss add constraint no check (rows <> 2) not valid")
        assert boxes.diff(insert) == []
        (said,) = boxes.notices
        assert said.startswith(
            "public.box: inserted rows are not in the log, and could not be noted: new row"
        )
    boxes.notices.clear()
    boxes.run("delete from gapless.attached where attachment_id = %s", number)
    assert boxes.diff("insert into public.box select 1 where false") == []
    assert boxes.notices == []
    assert boxes.diff(insert) == []
    assert boxes.notices == [
        (
            "public.box is attached, but its topic is not known any more: gapless attach add it anew, or drop its trigger"
            " gapless_attach"
        )
    ]


# What an attachment of box says of its columns, and why there is no value for key.
WITHOUT: list[tuple[dict[str, Any], str]] = [
    ({"id_column": ""}, "the column of public.box is gone that gave its rows their order"),
    ({"map": {"key": "gone"}}, GONE),
    ({"map": {"key": ""}}, GONE),
    ({"map": {"key": "ctid"}}, GONE),
    ({"map": {"key": "........pg.dropped.3........"}}, GONE),
    ({"map": {"key": "payload"}}, GONE),
]


@pytest.mark.parametrize(("words", "said"), WITHOUT)
def test_what_is_gone_has_no_value(boxes: Boxes, words: dict[str, Any], said: str) -> None:
    number = boxes.attach(map=WISH)
    boxes.run("alter table public.box drop body")
    made = {
        "attachment_id": number,
        "table_name": "public.box",
        "id_column": "id",
        "map": {},
        **words,
    }
    value = "select gapless.attached_value(jsonb_populate_record(null::gapless.attached, %s::jsonb), 'box'::regclass, 'key', false)"
    assert boxes.refused(value, json.dumps(made)) == ("GL400", said)
    made |= {"id_column": "id", "map": {}}
    assert boxes.value(value, json.dumps(made)) == "null::text"
