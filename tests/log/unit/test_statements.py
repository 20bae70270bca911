"""What is one event and what are many, and how what was refused is said."""

from typing import Any

import psycopg
import pytest

from gapless.errors import PublishError
from gapless.log.event import NewEvent
from gapless.log.given import given
from gapless.log.publish import Publishing, publish_error
from gapless.log.read import as_array, in_order
from gapless.log.script import Trouble


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
