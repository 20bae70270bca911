"""Which statement stores which events, with what, and how what was refused is said."""

from typing import Any
from uuid import UUID

import psycopg
import pytest

from gapless.errors import PublishError
from gapless.log.event import NewEvent
from gapless.log.given import given
from gapless.log.publish import Publishing, publish_error
from gapless.log.read import as_array, in_order
from gapless.log.script import Trouble
from gapless.log.statements import copied, statement_of, told_before, transaction_id

TOLD = {"cause": "g/t/0@1", "correlation": None}
OTHER = UUID(int=9)


def plain(count: int, **last: Any) -> list[NewEvent]:
    events = [NewEvent(payload=n) for n in range(count)]
    return events if not last else [*events[:-1], NewEvent(payload=count - 1, **last)]


@pytest.mark.parametrize("told", [{}, TOLD], ids=["alone", "told"])
@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({}, "publish_one"),
        ({"key": "k", "event_type": "t", "headers": {"a": 1}}, "publish_one"),
        ({"dedupe_key": "d"}, "publish_once"),
        ({"dedupe_key": "d", "deliver_in": 1}, "publish_each"),
        ({"deliver_in": 1}, "publish_each"),
        ({"to_group": "g"}, "publish_each"),
    ],
)
def test_one_event(told: dict[str, Any], fields: dict[str, Any], name: str) -> None:
    used, params, rest = statement_of("t", [NewEvent(payload=1, **fields)], told)
    is_plain = name == "publish_one"
    assert used == (f"{name}_from" if told and is_plain else name)
    assert params["topic"] == "t"
    assert params["payload"] == (["1"] if name == "publish_each" else "1")
    assert list(rest) == []
    assert (params.get("cause"), "correlation" in params) == (
        ("g/t/0@1", True) if told and is_plain else (None, False)
    )
    if name == "publish_once":
        assert params["dedupe_key"] == "d"
    if is_plain:
        assert params.get("key") == fields.get("key")


@pytest.mark.parametrize("told", [{}, TOLD], ids=["alone", "told"])
@pytest.mark.parametrize(
    ("count", "last", "name"),
    [
        (0, {}, "publish_some"),
        (1, {}, "publish_some"),
        (200, {}, "publish_some"),
        (200, {"dedupe_key": "d"}, "publish_each"),
        (201, {}, "publish_many"),
        (450, {"dedupe_key": "d"}, "publish_many"),
    ],
)
def test_several_events(told: dict[str, Any], count: int, last: dict[str, Any], name: str) -> None:
    events = plain(count, **last)
    used, params, rest = statement_of("t", iter(events), told)
    is_plain = name == "publish_some"
    assert used == (f"{name}_from" if told and is_plain else name)
    assert list(rest) == (events if name == "publish_many" else [])
    assert params.get("payload") == (
        None if name == "publish_many" or not count else [str(n) for n in range(count)]
    )
    assert params["topic"] == "t"
    assert "correlation" not in params or (told and is_plain)


@pytest.mark.parametrize(
    ("own", "caused", "expected"),
    [
        (None, None, None),
        (None, OTHER, OTHER),
        (UUID(int=1), None, str(UUID(int=1))),
        (UUID(int=1), OTHER, str(UUID(int=1))),
    ],
)
def test_what_is_copied_has_the_units_id_unless_it_has_its_own(
    own: Any, caused: Any, expected: Any
) -> None:
    line = copied(7, caused, NewEvent(payload=1, key="k", transaction_id=own))
    assert line == (7, "1", "k", None, None, None, None, expected)


def test_rows() -> None:
    assert transaction_id((str(OTHER), 1)) == OTHER
    assert transaction_id((OTHER,)) == OTHER
    assert told_before(("c", "d")) == {"cause": "c", "correlation": "d"}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Trouble(ValueError(), "GL404", "m", None), "m"),
        (Trouble(ValueError(), "GL409", "m", "d"), "m (d)"),
        (Trouble(ValueError(), "P0002", "m", "d"), "m (d)"),
        (Trouble(ValueError(), "22P02", "m", ""), "m"),
        (Trouble(psycopg.DataError(), "", "m", None), "m"),
    ],
)
def test_what_the_event_caused_is_said(error: Any, text: str) -> None:
    found = publish_error(error)
    assert type(found) is PublishError
    assert str(found) == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", "text that is not valid Unicode cannot be stored: why"),
        ("latin-1", "the session's client_encoding (latin-1) lacks '\\u20ac': set it to UTF8"),
    ],
)
def test_what_is_no_text_there_is_said(encoding: str, text: str) -> None:
    with pytest.raises(PublishError) as caught:
        with Publishing("t", iter(())):
            raise UnicodeEncodeError(encoding, "a€b", 1, 2, "why")
    assert str(caught.value) == text


@pytest.mark.parametrize("state", ["", "GL400", "23505", "40001", "P0001"])
def test_what_the_database_caused_is_as_it_was(state: str) -> None:
    error = ValueError("driver")
    assert publish_error(Trouble(error, state, "m", "d")) is error


@pytest.mark.parametrize(
    ("what", "fields", "count"),
    [
        ("text", {}, None),
        (b"{}", {}, None),
        (bytearray(b"{}"), {}, None),
        ({"a": 1}, {}, None),
        (5, {}, None),
        (None, {}, None),
        ([], {}, None),
        ([1, 2], {}, None),
        ((), {"key": "k"}, None),
        ([NewEvent(payload=1), 2], {"key": "k"}, None),
        ([NewEvent(payload=1), NewEvent(payload=2)], {}, 2),
        ((NewEvent(payload=1),), {}, 1),
        (iter(()), {}, 0),
        ({1, 2}, {}, 2),
        ({1, 2}, {"key": "k"}, None),
    ],
)
def test_what_is_one_event_and_what_are_many(
    what: Any, fields: dict[str, Any], count: int | None
) -> None:
    events = given(what, fields)
    if count is None:
        assert events == [NewEvent(payload=what, **fields)]
    else:
        assert not isinstance(events, list)
        assert len(list(events)) == count


def test_rows_are_put_in_order() -> None:
    rows: list[Any] = [(1, "a"), (2, "b"), (3, "c")]
    assert in_order(rows, [1, 2, 3]) is rows
    assert in_order(rows, [3, 1]) == [rows[2], rows[0]]
    assert as_array([1, 20, 3]) == "{1, 20, 3}"
    assert as_array((5,)) == "{5}"
