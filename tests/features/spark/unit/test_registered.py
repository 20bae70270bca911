"""The Spark type of each JSON Schema: lossless, and a string where Spark has no type."""

from typing import Any

import pytest

from gapless.errors import UsageError
from gapless.features.spark.registered import struct_of


def _array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def _map(kind: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": "string", "valueType": kind, "valueContainsNull": True}


def _struct(**fields: Any) -> dict[str, Any]:
    made = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields.items()]
    return {"type": "struct", "fields": made}


OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}}
TYPES: list[tuple[Any, Any]] = [
    ({"type": "string", "format": "date-time"}, "string"),
    ({"type": "boolean"}, "boolean"),
    ({"type": "integer", "minimum": 0}, "long"),
    ({"type": "integer", "maximum": 2**64}, "decimal(38,0)"),
    ({"type": "integer", "exclusiveMaximum": 2**64}, "decimal(38,0)"),
    ({"type": "number"}, "double"),
    ({"type": "number", "multipleOf": 0.01}, "decimal(38,2)"),
    ({"type": "number", "multipleOf": 0.25}, "decimal(38,2)"),
    ({"type": "number", "multipleOf": 1e-30}, "double"),
    ({"type": ["integer", "number"]}, "double"),
    ({"type": ["integer", "null"]}, "long"),
    ({"type": ["integer", "string"]}, "string"),
    ({"type": "null"}, "string"),
    ({"enum": ["a", "b", None]}, "string"),
    ({"enum": [True, False]}, "boolean"),
    ({"const": 3}, "long"),
    ({"enum": [1, 2.5]}, "double"),
    ({"enum": [{}, 1]}, "string"),
    ({"type": "array", "items": {"type": "integer"}}, _array("long")),
    ({"type": "array"}, _array("string")),
    ({"type": "array", "items": [{"type": "integer"}]}, _array("string")),
    ({"type": "array", "prefixItems": [{"type": "integer"}], "items": False}, "string"),
    (OBJECT, _struct(n="long")),
    ({"properties": {"n": True}}, _struct(n="string")),
    ({"type": "object"}, "string"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, _map("long")),
    ({"type": "object", "patternProperties": {"x": {}}, "additionalProperties": {}}, "string"),
    ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "string"),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "long"),
    ({"allOf": [{"$ref": "#/$defs/money"}]}, "decimal(38,2)"),
    ({"type": "string", "anyOf": [{"pattern": "a"}, {"pattern": "b"}]}, "string"),
    ({**OBJECT, "allOf": [{"if": {}, "then": {}}, {}]}, _struct(n="long")),
    ({"$ref": "#/$defs/money"}, "decimal(38,2)"),
    ({"$ref": "#/$defs/a~1b"}, "boolean"),
    ({"$ref": "#/$defs/nothing"}, "string"),
    ({"$ref": "https://example.com/money"}, "string"),
    ({"$ref": "#/$defs/tree"}, _struct(name="string", parts=_array("string"))),
    (True, "string"),
    ({}, "string"),
]
DEFS = {
    "money": {"type": "number", "multipleOf": 0.01},
    "a/b": {"type": "boolean"},
    "tree": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
        },
    },
}


@pytest.mark.parametrize(("schema", "kind"), TYPES)
def test_each_part_has_its_type(schema: Any, kind: Any) -> None:
    whole = {"type": "object", "properties": {"it": schema}, "$defs": DEFS}
    assert struct_of(whole, "x") == _struct(it=kind)


@pytest.mark.parametrize(
    "schema", [{"type": "object"}, {"oneOf": [OBJECT, {"type": "object"}]}, True, {"type": "array"}]
)
def test_without_properties_there_is_nothing_to_read(schema: Any) -> None:
    with pytest.raises(UsageError, match="version 1 of x names no properties"):
        struct_of(schema, "version 1 of x")


def test_parts_that_multiply_are_refused() -> None:
    defs = {
        f"d{n}": {"properties": {name: {"$ref": f"#/$defs/d{n + 1}"} for name in "abcd"}}
        for n in range(30)
    }
    whole = {"properties": {"it": {"$ref": "#/$defs/d0"}}, "$defs": defs}
    with pytest.raises(UsageError, match="more than 10000 parts"):
        struct_of(whole, "x")
