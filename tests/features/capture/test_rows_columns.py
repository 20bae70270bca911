"""Which columns of a table a payload has, how, and what of them an update changed."""

from typing import Any

import pytest

from features.capture.ledger import RECORD, CaptureBook

MORE = """
create type public.mood as enum ('good', 'bad');
create type public.pair_of as (a int, b int);
create type public.span as range (subtype = int);
create domain public.age as int;
create domain public.ages as int[];
create domain public.feel as public.mood;
"""


TEXT = 'case when num_nulls(r."{0}") = 0 then concat(r."{0}") end as "{0}"'
# A type, whether its values are published as JSON of the server's, and not as its text.
TYPES = {
    "int": True, "int[]": True, "json": True, "point": True, "name": True, "int2vector": True, "public.age": True,
    "public.ages": True, "public.age[]": True, "public.feel[]": False, "public.mood": True, "public.mood[]": True, "public.span": True,
    "public.pair_of": False, "public.pair_of[]": False, "public.feel": False, "public.box": False,
}  # fmt: skip
SELECT = f"select gapless.captured_columns({RECORD}, 'public.t'::regclass)"


def columns(ledger: CaptureBook, type_name: str) -> str:
    ledger.run(f'create table public.t ("The c" {type_name})')
    found = str(ledger.value(SELECT, ledger.record("t", columns=None)))
    ledger.run("drop table public.t")
    return found


@pytest.mark.parametrize("type_name", TYPES)
def test_values_are_json_where_no_cast_of_somebody_s_is_called(
    ledger: CaptureBook, type_name: str
) -> None:
    plain, text = 'r."The c"', TEXT.format("The c")
    assert columns(ledger, type_name) == (plain if TYPES[type_name] else text)
    if "mood" not in type_name:
        return
    ledger.run("create role gapless_test_plain; create role gapless_test_super superuser")
    ledger.run("alter type public.mood owner to gapless_test_super")
    assert columns(ledger, type_name) == plain
    ledger.run("grant create on schema public to gapless_test_plain")
    ledger.run("alter type public.mood owner to gapless_test_plain")
    assert columns(ledger, type_name) == text
    ledger.run("grant usage on schema gapless to gapless_test_plain")
    ledger.run("grant execute on all functions in schema gapless to gapless_test_plain")
    made = ledger.record("box", columns=None)
    ledger.run(f'create table public.t ("The c" {type_name}); set local role gapless_test_plain')
    assert ledger.value(SELECT, made) == plain


CHOSEN: list[tuple[list[str] | None, list[int] | None, str]] = [
    (None, None, "r.id, r.a, r.b, r.c"),
    (["c", "a"], [4, 2], "r.a, r.c"),
    (["was"], [3], "r.b"),
    (["gone"], [0], ""),
    (["ctid"], [-1], ""),
]


@pytest.mark.parametrize(("names", "numbers", "said"), CHOSEN)
def test_columns_that_were_chosen(
    ledger: CaptureBook, names: list[str] | None, numbers: list[int] | None, said: str
) -> None:
    made = ledger.record("box", columns=names, column_numbers=numbers)
    found = ledger.value(f"select gapless.captured_columns({RECORD}, 'box'::regclass)", made)
    assert found == said


OLD_ROW = '{"a": 1, "b": "x", "c": null}'
CHANGED = [
    (OLD_ROW, '{"a": 1, "b": "x", "c": null}', "{}"),
    (OLD_ROW, '{"a": 2, "b": "x", "c": null}', {"a": 1}),
    (OLD_ROW, '{"a": 1, "b": "y", "c": 0}', {"b": "x", "c": None}),
    (OLD_ROW, '{"a": 1, "b": null, "c": null}', {"b": "x"}),
    ('{"a": 1, "b": "\\u0000"}', '{"a": 1, "b": ""}', '{"a": 1, "b": "\\u0000"}'),
    ('{"a": 1, "b": ""}', '{"a": 2, "b": "\\uD800"}', '{"a": 1, "b": ""}'),
    ('{"a": 1, "b": "\\udfff"}', '{"a": 2, "b": ""}', '{"a": 1, "b": "\\udfff"}'),
    ('{"a": 1, "b": "\\ud7ff"}', '{"a": 2, "b": "\\ud7ff"}', {"a": 1}),
]


@pytest.mark.parametrize(("old", "new", "said"), CHANGED)
def test_what_of_a_row_changed(ledger: CaptureBook, old: str, new: str, said: Any) -> None:
    query = "select gapless.changed_columns(%s::json, %s::json)"
    if isinstance(said, str):
        found = ledger.value(f"select ({query[7:]})::text", old, new)
        assert found.replace(" ", "") == said.replace(" ", "")
    else:
        assert ledger.value(query, old, new) == said
