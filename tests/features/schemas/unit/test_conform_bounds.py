"""Where schemas and payloads begin to be too much, and how what is said of them is cut."""

import json

import pytest

from gapless.features.schemas.conform import (
    DEPTH_MAX,
    SCHEMA_BYTES_MAX,
    Mismatch,
    NotASchemaError,
    covers,
    json_schema,
)

ANY = json_schema("{}")
TOO_DEEP = Mismatch("", "", f"nested more than {DEPTH_MAX} levels deep")
HEAD = '{"title": "'


def padded(size: int, fill: str = "x") -> str:
    """A schema of so many bytes."""
    room = size - len(HEAD) - len('"}')
    return HEAD + fill * (room // len(fill.encode())) + '"}'


def nested(levels: int, inner: str = "1") -> str:
    """An array in an array, or in an object, so many levels; then a value that is none."""
    opened = "".join('{"a":' if n % 2 else "[" for n in range(levels))
    closed = "".join("}" if n % 2 else "]" for n in reversed(range(levels)))
    return opened + inner + closed


def test_a_schema_may_have_so_many_bytes() -> None:
    assert json_schema(padded(SCHEMA_BYTES_MAX)).mismatch("1") is None
    for text in (padded(SCHEMA_BYTES_MAX + 1), padded(SCHEMA_BYTES_MAX + 10, "ä")):
        with pytest.raises(NotASchemaError) as caught:
            json_schema(text)
        assert str(caught.value) == f"a schema has at most {SCHEMA_BYTES_MAX} bytes"


@pytest.mark.parametrize(
    ("payload", "fits"),
    [
        (nested(DEPTH_MAX - 1), True),
        (nested(DEPTH_MAX), True),
        (nested(DEPTH_MAX + 1), False),
        (nested(DEPTH_MAX, "[]").replace("1", ""), False),
        (nested(DEPTH_MAX - 1, "[]"), True),
        (nested(DEPTH_MAX - 1, "{}"), True),
        (json.dumps([[]] * 1000), True),
        (json.dumps("[" * 1000), True),
        (json.dumps([nested(DEPTH_MAX + 5)]), True),
        ("[" * 100_000 + "]" * 100_000, False),
    ],
)
def test_a_payload_may_be_nested_so_deeply(payload: str, fits: bool) -> None:
    assert ANY.mismatch(payload) == (None if fits else TOO_DEEP)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("{", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("1 2", "Extra data: line 1 column 3 (char 2)"),
    ],
)
def test_what_is_no_json_is_said(payload: str, reason: str) -> None:
    assert ANY.mismatch(payload) == Mismatch("", "", reason)


def test_what_is_said_is_one_line_of_so_many_characters() -> None:
    """The value that does not fit may be long."""
    read = json_schema('{"type": "integer"}')
    around = len('"" is not of type "integer"')
    for length, whole in ((300 - around, True), (301 - around, False)):
        found = read.mismatch(json.dumps("y" * length))
        assert found is not None
        assert len(found.reason) == 300
        assert (found.reason[-1] == "…") is not whole
        assert found.reason.startswith('"yyy')
        assert (found.pointer, found.keyword) == ("", "/type")
    lines = read.mismatch(json.dumps("a\nb   c"))
    assert lines is not None
    assert "\n" not in lines.reason


FORMAT = '{"type": "string", "format": "date"}'


@pytest.mark.parametrize(
    ("wide", "narrow", "answer"),
    [
        ("{}", "{}", True),
        ("{}", '{"type": "integer"}', True),
        ('{"type": "integer"}', "{}", False),
        ('{"type": "string"}', FORMAT, True),
        (FORMAT, '{"type": "string"}', False),
        (FORMAT, '{"type": "string", "format": "date", "title": "x"}', True),
        ('{"type": "string", "maxLength": 2.0}', '{"type": "string", "maxLength": 1}', True),
    ],
)
def test_whether_all_that_fits_one_fits_the_other(
    wide: str, narrow: str, answer: bool | None
) -> None:
    assert covers(wide, narrow) is answer


def test_nothing_is_fetched_to_compare() -> None:
    away = '{"$ref": "http://127.0.0.1:9/x.json"}'
    try:
        assert covers(away, '{"type": "integer"}') is None
    except NotASchemaError as error:
        assert "Retrieval is disabled" in str(error) or "x.json" in str(error)  # noqa: PT017
