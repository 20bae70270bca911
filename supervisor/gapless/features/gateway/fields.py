"""The fields of a request whose body is one small JSON object."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from starlette.requests import Request

from gapless.features.gateway.body import content_type, read_body, text_of
from gapless.features.gateway.params import text_in
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.shape import Values
from gapless.features.load.parse import NotJsonError, Number, whole

BYTES_MAX = 65_536
_DEPTH = "nested too deeply"


class Fields:
    """An object; each method reads a field as one type. Raises Problem (400)."""

    def __init__(self, found: dict[str, Any]) -> None:
        self._found = found

    def value(self, name: str, values: Values) -> Any:
        """Return a field by its shape; without an optional one its default, else None."""
        shape, is_needed = values.shapes[name], name in values.needed
        kind, default = shape["type"], shape.get("default")
        if kind == "string":
            found = self.text(name, None if is_needed else "", shape["maxLength"])
            return found if is_needed else found or default
        if kind == "integer":
            number = self.whole(name, default, shape["minimum"], shape["maximum"])
            if number is None and is_needed:
                raise Problem(400, f"{name} is missing")
            return number
        if kind == "number":
            return self.number(name, default or 0.0)
        if kind == "array" and shape["items"]["type"] == "string":
            return self.text_list(name, shape["maxItems"], shape["items"]["maxLength"])
        if kind == "array":
            return self.wholes(name, shape["items"]["minimum"], shape["items"]["maximum"])
        return self.truth(name) if kind == "boolean" else self.texts(name)

    def text(self, name: str, default: str | None, most: int) -> str:
        """Return a text of at most `most` characters."""
        value = self._found.get(name)
        if value is not None and type(value) is not str:
            raise Problem(400, f"{name} must be text")
        if value is not None and not value.isprintable() and _has_half(value):
            raise Problem(400, f"{name} has half a surrogate pair")
        return text_in({} if value is None else {name: value}, name, default, most)

    def whole(self, name: str, default: int | None, low: int, high: int) -> int | None:
        """Return a whole number from low to high."""
        value = self._found.get(name)
        if value is None:
            return default
        if not isinstance(value, Number) or not value.isdecimal() or len(value) > 18:
            raise Problem(400, f"{name} must be a whole number from {low} to {high}")
        if not low <= int(value) <= high:
            raise Problem(400, f"{name}: a whole number from {low} to {high}, not {value}")
        return int(value)

    def number(self, name: str, default: float) -> float:
        """Return a number; the callee checks its bounds."""
        value = self._found.get(name)
        if value is None:
            return default
        if not isinstance(value, Number):
            raise Problem(400, f"{name} must be a number of seconds")
        return float(value)

    def texts(self, name: str) -> dict[str, str]:
        """Return an object whose values are texts, each at most as long as the body."""
        value = self._found.get(name)
        if not isinstance(value, dict) or not all(type(each) is str for each in value.values()):
            raise Problem(400, f"{name} must be an object whose values are text")
        if any("\0" in each or _has_half(each) for each in value.values()):
            raise Problem(400, f"{name} has a NUL, or half a surrogate pair")
        return value

    def wholes(self, name: str, low: int, high: int) -> list[int | None] | None:
        """Return a list of whole numbers from low to high; None if the field is missing."""
        found = self._found.get(name)
        if found is None:
            return None
        if not isinstance(found, list) or len(found) > 10_000:
            raise Problem(400, f"{name} must be a list of whole numbers from {low} to {high}")
        return [Fields({name: each}).whole(name, None, low, high) for each in found]

    def text_list(self, name: str, items_max: int, most: int) -> list[str] | None:
        """Return a list of texts of at most `most` characters; None if the field is missing."""
        found = self._found.get(name)
        if found is None:
            return None
        if not isinstance(found, list) or not 1 <= len(found) <= items_max:
            raise Problem(400, f"{name} must be a list of 1 to {items_max} texts")
        return [Fields({name: each}).text(name, None, most) for each in found]

    def truth(self, name: str) -> bool:
        """Return a boolean; False if the field is missing."""
        value = self._found.get(name)
        if value is not None and not isinstance(value, bool):
            raise Problem(400, f"{name} must be true or false")
        return bool(value)


async def fields_in(request: Request, known: Collection[str]) -> Fields:
    """Return the fields of a body. `known`: the names that are allowed.

    Raises Problem: 400 if it is no object or has other fields, 413, 415.
    """
    if content_type(request) != "application/json":
        raise Problem(415, "Content-Type must be application/json")
    text = text_of(await read_body(request, BYTES_MAX))
    try:
        (found,) = await request.app.slices.collect(map(whole, [text]))
    except NotJsonError as error:
        reason = str(error).rpartition(" at character ")[0]
        where = {"line": error.line, "column": error.column}
        raise Problem(
            400, f"{reason} at line {error.line} column {error.column}", headers=None, **where
        ) from None
    except (RecursionError, ValueError) as error:
        raise Problem(400, str(error) if isinstance(error, ValueError) else _DEPTH) from None
    if not isinstance(found, dict):
        raise Problem(400, f"the body must be an object with {', '.join(known) or 'no field'}")
    unknown = sorted(set(found) - set(known))
    if unknown:
        there = ", ".join(known) or "none"
        raise Problem(400, f"unknown field {unknown[0]!r}: there are {there}")
    return Fields(found)


def _has_half(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
