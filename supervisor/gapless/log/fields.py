"""Values of plain dataclasses, made from decoded JSON: the reverse of codec._plain."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from gapless.errors import UsageError

Convert = Callable[[Any, str], Any]
"""Make a value from the JSON value at a path."""


class NotOfTypeError(ValueError):
    """The JSON value is not of the type; `path` is its place, such as `$.lines[2].price`."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


def converter(wanted: Any) -> Convert:
    """Return a converter to a type. It is strict: text is not taken for a number.

    Ignores fields that the type does not have. Raises UsageError for a type that has no form in
    JSON.
    """
    return _converter(wanted, {})


def _converter(wanted: Any, known: dict[Any, Convert]) -> Convert:
    if wanted in known:
        return known[wanted]
    if is_dataclass(wanted) and isinstance(wanted, type):
        return _of_dataclass(wanted, known)
    origin = get_origin(wanted)
    if origin in _CONTAINERS or wanted in _CONTAINERS:
        return _CONTAINERS[origin or wanted](wanted, known)
    if wanted is Any or wanted is object:
        return lambda value, _: value
    if isinstance(wanted, type):
        for kind, make in _SCALARS.items():
            if issubclass(wanted, kind):
                return make(wanted)
    raise UsageError(f"{wanted} is no type that gapless can make of JSON: use pydantic or msgspec")


def _of_dataclass(wanted: type, known: dict[Any, Convert]) -> Convert:
    converters: dict[str, Convert] = {}
    required: list[str] = []

    def convert(value: Any, path: str) -> Any:
        _require(isinstance(value, dict), value, path, "an object")
        for name in required:
            if name not in value:
                raise NotOfTypeError(f"{path}.{name}", "is missing")
        given = {
            name: make(value[name], f"{path}.{name}")
            for name, make in converters.items()
            if name in value
        }
        return _built(wanted, given, path)

    known[wanted] = convert  # before its fields: one may be of this type again
    try:
        hints = get_type_hints(wanted)
    except NameError as error:
        raise UsageError(f"payload={wanted.__qualname__}: {error}") from error
    for field in fields(wanted):
        if field.init:
            converters[field.name] = _converter(hints[field.name], known)
            if field.default is MISSING and field.default_factory is MISSING:
                required.append(field.name)
    return convert


def _built(wanted: type, given: Mapping[str, Any], path: str) -> Any:
    try:
        return wanted(**given)
    except (TypeError, ValueError) as error:  # its __post_init__
        raise NotOfTypeError(path, str(error)) from error


def _of_union(wanted: Any, known: dict[Any, Convert]) -> Convert:
    choices = [_converter(choice, known) for choice in get_args(wanted)]

    def convert(value: Any, path: str) -> Any:
        problems = []
        for choice in choices:
            try:
                return choice(value, path)
            except NotOfTypeError as error:
                problems.append(error)
        raise max(problems, key=lambda problem: len(problem.path))  # of the one that got furthest

    return convert


def _of_literal(wanted: Any, _known: dict[Any, Convert]) -> Convert:
    choices = get_args(wanted)

    def convert(value: Any, path: str) -> Any:
        is_one = any(value == each and type(value) is type(each) for each in choices)
        _require(is_one, value, path, f"one of {', '.join(map(repr, choices))}")
        return value

    return convert


def _of_list(wanted: Any, known: dict[Any, Convert]) -> Convert:
    of = get_args(wanted)
    kind = get_origin(wanted) or wanted
    if kind is tuple and of and of[-1] is not Ellipsis:
        return _of_places([_converter(each, known) for each in of])
    element = _converter(of[0] if of else Any, known)

    def convert(value: Any, path: str) -> Any:
        _require(isinstance(value, list), value, path, "an array")
        return kind(element(each, f"{path}[{n}]") for n, each in enumerate(value))

    return convert


def _of_places(places: list[Convert]) -> Convert:
    def convert(value: Any, path: str) -> Any:
        is_so = isinstance(value, list) and len(value) == len(places)
        _require(is_so, value, path, f"an array of {len(places)}")
        pairs = zip(places, value, strict=True)
        return tuple(make(each, f"{path}[{n}]") for n, (make, each) in enumerate(pairs))

    return convert


def _of_dict(wanted: Any, known: dict[Any, Convert]) -> Convert:
    key_type, value_type = get_args(wanted) or (str, Any)
    key, element = _converter(key_type, known), _converter(value_type, known)

    def convert(value: Any, path: str) -> Any:
        _require(isinstance(value, dict), value, path, "an object")
        return {
            key(name, f"{path}.{name}"): element(each, f"{path}.{name}")
            for name, each in value.items()
        }

    return convert


def _exactly(kind: type, words: str, *also: type) -> Callable[[type], Convert]:
    """Return a maker of converters that take a JSON value as it is; a bool is not a number."""

    def make(wanted: type) -> Convert:
        def convert(value: Any, path: str) -> Any:
            is_one = isinstance(value, (kind, *also)) and (
                kind is bool or not isinstance(value, bool)
            )
            _require(is_one, value, path, words)
            return value if type(value) is wanted else _of_value(wanted, value, path)

        return convert

    return make


def _from_text(words: str, made_of: str = "") -> Callable[[type], Convert]:
    def make(wanted: type) -> Convert:
        call: Callable[[str], Any] = getattr(wanted, made_of) if made_of else wanted

        def convert(value: Any, path: str) -> Any:
            _require(isinstance(value, str), value, path, words)
            return _of_value(call, value, path)

        return convert

    return make


def _of_enum(wanted: type) -> Convert:
    return lambda value, path: _of_value(wanted, value, path)


def _of_decimal(wanted: type) -> Convert:
    def convert(value: Any, path: str) -> Any:
        is_one = isinstance(value, str | int | float) and not isinstance(value, bool)
        _require(is_one, value, path, "a number, or one as text")
        return _of_value(wanted, str(value), path)

    return convert


def _of_none(_wanted: type) -> Convert:
    def convert(value: Any, path: str) -> Any:
        _require(value is None, value, path, "null")
        return value

    return convert


def _of_value(make: Callable[[Any], Any], value: Any, path: str) -> Any:
    try:
        return make(value)
    except (ValueError, ArithmeticError) as error:
        raise NotOfTypeError(path, str(error) or f"{value!r} is none") from error


def _require(condition: bool, value: Any, path: str, words: str) -> None:  # noqa: FBT001
    if not condition:
        raise NotOfTypeError(path, f"must be {words}, not {_JSON.get(type(value), 'null')}")


_JSON: dict[type, str] = {
    dict: "an object", list: "an array", str: "text", int: "a number", float: "a number",
    bool: "a boolean",
}  # fmt: skip
_CONTAINERS: dict[Any, Callable[[Any, dict[Any, Convert]], Convert]] = {
    Union: _of_union, types.UnionType: _of_union, Literal: _of_literal, dict: _of_dict,
    list: _of_list, tuple: _of_list, set: _of_list, frozenset: _of_list,
}  # fmt: skip
_SCALARS: dict[type, Callable[[type], Convert]] = {
    types.NoneType: _of_none,
    Enum: _of_enum,
    bool: _exactly(bool, "a boolean"),
    int: _exactly(int, "a whole number"),
    float: _exactly(float, "a number", int),
    str: _exactly(str, "text"),
    UUID: _from_text("a UUID as text"),
    Decimal: _of_decimal,
    datetime: _from_text("a date and time as text", "fromisoformat"),
    date: _from_text("a date as text", "fromisoformat"),
    time: _from_text("a time as text", "fromisoformat"),
    Path: _from_text("a path as text"),
    PurePath: _from_text("a path as text"),
}
