"""The registered JSON Schema of a topic as a schema of Spark, for from_json.

Spark has no type for much of JSON Schema. Such a value is a string with its JSON text, which
from_json fills for any value: nothing of it is lost, and it can be parsed in a second step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gapless.errors import UsageError
from gapless.features.schemas.ops import show_schema
from gapless.features.spark.options import read_options
from gapless.features.spark.standby import open_control

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# A type as StructType.fromJson() takes it: a name, or an object.
SparkType = str | dict[str, Any]

_PARTS_MAX = 10_000
_SCALE_MAX = 18
_LONG_MAX = 2**63 - 1
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_STRING = "string"
_OF_VALUES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def schema_of(
    topic: str, event_type: str | None = None, *, version: int | None = None, url: str | None = None
) -> StructType:
    """Return the registered schema of a topic's payloads, for from_json(value, schema).

    event_type: None is the schema of all types (*). version: the newest one if None. url: the
    database; None: the one that a read without option url reads. Raises UsageError if there is no
    such schema, or it describes no object.
    """
    from pyspark.sql.types import StructType

    given = {"subscribe": topic} if url is None else {"subscribe": topic, "url": url}
    with closing(open_control(read_options(given).dsn, standby=True)) as conn:
        found = show_schema(conn, topic, event_type, version)
    name = f"version {found.version} of the schema of {found.topic}/{found.event_type}"
    made: StructType = StructType.fromJson(struct_of(json.loads(found.schema), name))
    return made


def struct_of(schema: Any, name: str) -> dict[str, Any]:
    """Return the struct of a JSON Schema of an object, as JSON; name: for messages.

    Raises UsageError for a schema that names no properties.
    """
    try:
        kind = _Types(schema).of(schema)
    except _TooLargeError:
        raise UsageError(f"{name} has more than {_PARTS_MAX} parts: read value as text") from None
    if isinstance(kind, str) or kind["type"] != "struct":
        raise UsageError(
            f"{name} names no properties of an object, and from_json needs them: read value as "
            "text, or by get_json_object"
        )
    return kind


class _TooLargeError(Exception):
    """A schema whose parts refer to others so often that no type can be made of it."""


class _Types:
    """The types of one document, whose parts refer to each other."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._parts = 0

    def of(self, schema: Any, within: tuple[str, ...] = ()) -> SparkType:
        """Return the type of a value; within: the references that lead to it."""
        self._parts += 1
        if self._parts > _PARTS_MAX:
            raise _TooLargeError
        if not isinstance(schema, Mapping):
            return _STRING
        if "$ref" in schema:
            return self._referred(schema["$ref"], within)
        kinds = _kinds(schema)
        if not kinds:
            return self._only_one(schema, within)
        return self._of_kinds(kinds, schema, within)

    def _of_kinds(
        self, kinds: set[str], schema: Mapping[str, Any], within: tuple[str, ...]
    ) -> SparkType:
        if kinds == {"object"}:
            return self._object(schema, within)
        if kinds == {"array"}:
            return self._array(schema, within)
        if kinds == {"boolean"}:
            return "boolean"
        is_number = kinds <= {"integer", "number"}
        return _number(schema, is_whole=kinds == {"integer"}) if is_number else _STRING

    def _array(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> SparkType:
        if "prefixItems" in schema:
            return _STRING
        element = self.of(schema.get("items"), within)
        return {"type": "array", "elementType": element, "containsNull": True}

    def _object(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> SparkType:
        properties = schema.get("properties")
        rest = schema.get("additionalProperties")
        if isinstance(properties, Mapping) and properties:
            fields = [
                {"name": name, "type": self.of(part, within), "nullable": True, "metadata": {}}
                for name, part in properties.items()
            ]
            return {"type": "struct", "fields": fields}
        if isinstance(rest, Mapping) and "patternProperties" not in schema:
            value = self.of(rest, within)
            return {
                "type": "map",
                "keyType": _STRING,
                "valueType": value,
                "valueContainsNull": True,
            }
        return _STRING

    def _only_one(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> SparkType:
        """Return the type of the only choice that is not null; string if there are several."""
        choices = [
            part
            for keyword in ("oneOf", "anyOf", "allOf")
            for part in schema.get(keyword, ())
            if _kinds(part) != {"null"}
        ]
        return self.of(choices[0], within) if len(choices) == 1 else _STRING

    def _referred(self, reference: str, within: tuple[str, ...]) -> SparkType:
        """Return the type of a part of this document; string: it is elsewhere, or within itself."""
        part = self._document
        if not reference.startswith("#") or reference in within:
            return _STRING
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            part = part.get(key) if isinstance(part, Mapping) else None
        return self.of(part, (*within, reference))


def _kinds(schema: Any) -> set[str]:
    """Return the JSON types that a schema names itself, without null beside others."""
    if not isinstance(schema, Mapping):
        return set()
    named = schema.get("type")
    if named is None:
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        kinds = {_OF_VALUES.get(type(value), "null" if value is None else "") for value in values}
        if not kinds and "properties" in schema:
            kinds = {"object"}
    else:
        kinds = {named} if isinstance(named, str) else set(named)
    return kinds - {"null"} if len(kinds) > 1 else kinds


def _number(schema: Mapping[str, Any], *, is_whole: bool) -> str:
    """Return long or double; a decimal for bounds beyond long, and for multiples of 0.01."""
    if is_whole:
        bounds = [schema.get(name) for name in _BOUNDS]
        is_long = all(not isinstance(each, int) or abs(each) <= _LONG_MAX for each in bounds)
        return "long" if is_long else "decimal(38,0)"
    step = schema.get("multipleOf")
    if isinstance(step, int | float) and step > 0:
        exponent = Decimal(str(step)).normalize().as_tuple().exponent
        if isinstance(exponent, int) and -_SCALE_MAX <= exponent <= 0:
            return f"decimal(38,{-exponent})"
    return "double"
