"""The values of a path or a query: names, numbers, seconds, each within its bounds."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from starlette.datastructures import ImmutableMultiDict

from gapless.features.gateway.problem import Problem
from gapless.features.gateway.shape import TEXT_CHARACTERS_MAX, Shape, Values

PARTITION_MAX = 4_095
_WHOLE = re.compile("[0-9]{1,18}", re.ASCII)


def require_known(params: ImmutableMultiDict[str, str], known: Collection[str]) -> None:
    """Raise Problem (400) for a parameter of a query that is unknown, or given twice."""
    names = [name for name, _ in params.multi_items()]
    for name in names:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise Problem(400, f"unknown parameter {name[:100]!r}: there are {there}")
        if names.count(name) > 1:
            raise Problem(400, f"{name} stands there twice")


def part_in(path: Mapping[str, Any], name: str, shape: Shape, route: str) -> Any:
    """Return a value of a path. Raises Problem: 400, 404 for a word that is not allowed.

    route: the path with the names of its values.
    """
    if shape["type"] == "integer":
        return whole_in(path, name, shape["minimum"], shape["maximum"])
    found = text_in(path, name)
    if found not in (words := shape.get("enum", (found,))):
        above = route.rpartition("/")[0]
        raise Problem(404, f"{above} has {', '.join(words)}, no {found[:100]}")
    return found


def value_in(query: Mapping[str, Any], name: str, values: Values) -> Any:
    """Return a value of a query by its shape; of an optional one that is empty its default."""
    shape, is_needed = values.shapes[name], name in values.needed
    if "enum" in shape:
        return choice_in(query, name, shape["enum"])
    if shape["type"] == "boolean":
        return choice_in(query, name, ("true", "false")) == "true"
    if shape["type"] == "integer":
        return whole_in(query, name, shape["minimum"], shape["maximum"])
    if shape["type"] == "number":
        return seconds_in(query, name, shape["maximum"])
    found = text_in(query, name, None, shape.get("maxLength", TEXT_CHARACTERS_MAX))
    return found if is_needed else found or shape.get("default")


def text_in(
    params: Mapping[str, Any],
    name: str,
    default: str | None = None,
    most: int = TEXT_CHARACTERS_MAX,
) -> str:
    """Return a parameter. Raises Problem (400) if it is missing, too long, or has a NUL."""
    value = params.get(name, default)
    if value is None:
        raise Problem(400, f"{name} is missing")
    if len(value) > most or "\0" in value:
        raise Problem(400, f"{name}: at most {most} characters, none of them NUL")
    return str(value)


def whole_in(params: Mapping[str, Any], name: str, low: int, high: int) -> int:
    """Return a whole number from low to high. Raises Problem (400)."""
    value = params.get(name)
    if value is None:
        raise Problem(400, f"{name} is missing")
    if not _WHOLE.fullmatch(value) or not low <= int(value) <= high:
        raise Problem(400, f"{name}={value[:100]!r}: a whole number from {low} to {high}")
    return int(value)


def choice_in(params: Mapping[str, Any], name: str, choices: Sequence[str]) -> str:
    """Return one of the choices. Raises Problem (400)."""
    value = text_in(params, name)
    if value not in choices:
        raise Problem(400, f"{name}={value[:100]!r}: it is {' or '.join(choices)}")
    return value


def seconds_in(params: Mapping[str, Any], name: str, seconds_max: float) -> float:
    """Return seconds from 0 to seconds_max. Raises Problem (400)."""
    value = params[name]
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= seconds_max:
        raise Problem(400, f"{name}={value[:100]!r}: seconds from 0 to {seconds_max:g}")
    return seconds
