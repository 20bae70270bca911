"""Whether texts fit a JSON Schema, also hostile ones; what one schema is to another."""

import json
from decimal import Decimal
from time import monotonic

import pytest

from gapless.features.schemas.conform import (
    SCHEMA_BYTES_MAX,
    NotASchemaError,
    covers,
    json_schema,
)

ORDER = '{"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}'
CLOSED = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}


def test_a_mismatch_says_where_and_why() -> None:
    read = json_schema(ORDER)
    assert read.mismatch('{"total": 5}') is None
    found = read.mismatch('{"total": "x"}')
    assert found is not None
    assert (found.pointer, found.keyword) == ("/total", "/properties/total/type")
    assert str(found) == '/total: "x" is not of type "integer"'
    missing = read.mismatch("{}")
    assert missing is not None
    assert str(missing) == 'the payload: "total" is a required property'
    tricky = json_schema('{"additionalProperties": {"type": "integer"}}').mismatch('{"a/b~c": 1.5}')
    assert tricky is not None
    assert tricky.pointer == "/a~1b~0c"


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ('{"$ref": "http://127.0.0.1:9/x.json"}', "Retrieval is disabled"),
        ('{"$ref": "file:///etc/passwd"}', "Retrieval is disabled"),
        ('{"$id": "http://a.invalid/b", "$ref": "c"}', "Retrieval is disabled"),
        ('{"$schema": "http://json-schema.org/draft-03/schema#"}', "Unknown meta-schema"),
        ('{"$schema": 5}', "/$schema"),
        ('{"type": "objekt"}', "/type"),
        ('{"$ref": "#/nowhere"}', "does not exist"),
        ('{"pattern": "(?=a)b"}', "regex"),
        ('{"pattern": "("}', "regex"),
        ("[1]", "boolean"),
        ('"text"', "boolean"),
        ("{", "EOF"),
        ('{"properties":{"a":' * 300 + "{}" + "}}" * 300, "ecursion limit"),
        ('{"title": "' + "x" * SCHEMA_BYTES_MAX + '"}', "at most 1000000 bytes"),
    ],
)
def test_what_is_no_schema_is_one_line(schema: str, says: str) -> None:
    with pytest.raises(NotASchemaError, match=says.replace("$", r"\$")) as refused:
        json_schema(schema)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


def test_drafts_and_formats_are_checked() -> None:
    for draft in ("http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#",
                  "https://json-schema.org/draft/2019-09/schema"):  # fmt: skip
        read = json_schema(json.dumps({"$schema": draft, "format": "date-time"}))
        assert read.mismatch('"2030-01-01T09:00:00Z"') is None
        assert read.mismatch('"tomorrow"') is not None
    assert json_schema('{"format": "date"}').mismatch('"tomorrow"') is not None
    assert json_schema('{"format": "of my own"}').mismatch('"tomorrow"') is None


def test_a_hostile_pattern_and_a_recursive_schema_cost_no_time() -> None:
    began = monotonic()
    found = json_schema('{"pattern": "^(a+)+$"}').mismatch(json.dumps("a" * 100_000 + "!"))
    assert found is not None
    assert len(found.reason) <= 300
    assert json_schema('{"$ref": "#"}').mismatch("1") is None
    circle = '{"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}'
    json_schema(circle).mismatch("1")
    assert monotonic() - began < 20


def test_numbers_keep_their_digits() -> None:
    whole = json_schema('{"type": "integer", "maximum": 100000000000000000000}')
    assert whole.mismatch("100000000000000000000") is None
    assert whole.mismatch("100000000000000000001") is not None
    cents = json_schema('{"multipleOf": 0.01}')
    assert cents.mismatch("19.99") is None
    assert cents.mismatch("19.999") is not None
    assert cents.mismatch(str(Decimal("12345678901234567890.01"))) is None
    assert json_schema('{"type": "integer"}').mismatch("1.0") is None


OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


# What docs/use/schemas.md says is recognised: change, whether backward, whether forward; None: cannot tell.
@pytest.mark.parametrize(
    ("before", "after", "backward", "forward"),
    [
        pytest.param(OBJECT, {**OBJECT, "title": "x"}, True, True, id="words for people"),
        pytest.param(OBJECT, {**OBJECT, "required": []}, True, False, id="required no more"),
        pytest.param(
            OBJECT, {**OBJECT, "properties": {**OBJECT["properties"], "b": {"type": "string"}}},
            False, True, id="optional property, open object",
        ),
        pytest.param(
            CLOSED, {**CLOSED, "properties": {**CLOSED["properties"], "b": {"type": "string"}}},
            True, None, id="optional property, closed object",
        ),
        pytest.param(OBJECT, {**OBJECT, "required": ["a", "b"]}, False, True, id="required"),
        pytest.param({"type": "integer"}, {"type": "number"}, True, None, id="wider type"),
        pytest.param({"type": "integer"}, {"type": ["integer", "null"]}, True, False, id="or null"),
        pytest.param({"enum": [1, 2]}, {"enum": [1, 2, 3]}, True, False, id="enum grows"),
        pytest.param({"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 5},
                     True, False, id="longer"),
        pytest.param({"type": "integer", "minimum": 3}, {"type": "integer", "minimum": 1},
                     True, False, id="lower minimum"),
        pytest.param({"type": "integer"}, {"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}},
                     True, True, id="moved into $defs"),
        pytest.param({"type": "integer"}, {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                     True, False, id="one of more"),
        pytest.param({"type": "string", "pattern": "^a+$"}, {"type": "string", "pattern": "^a*$"},
                     None, False, id="another pattern"),
        pytest.param({"$schema": "http://json-schema.org/draft-07/schema#", "type": "integer"},
                     {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "integer"},
                     None, None, id="another draft"),
    ],
)  # fmt: skip
def test_what_a_change_is(
    before: dict, after: dict, backward: bool | None, forward: bool | None
) -> None:
    old, new = json.dumps(before), json.dumps(after)
    assert (covers(new, old), covers(old, new)) == (backward, forward)
    assert covers(old, old) is True
