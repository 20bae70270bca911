"""Values of dataclasses made of JSON: what each type takes, and what is said, and where, of the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path, PurePath
from typing import Any, Literal, Union
from uuid import UUID

import pytest

from gapless.errors import UsageError
from gapless.log.fields import NotOfTypeError, converter


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Tag(str):
    __slots__ = ()


@dataclass
class Node:
    name: str
    next: Node | None = None
    seen: int = field(default=7, init=False)


@dataclass
class Even:
    n: int
    made: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError("odd")


ID = "00000000-0000-0000-0000-00000000000a"
TAKEN: list[tuple[Any, Any, Any]] = [
    (Any, {"a": [1]}, {"a": [1]}),
    (object, None, None),
    (type(None), None, None),
    (bool, False, False),
    (int, 3, 3),
    (float, 3, 3.0),
    (float, 2.5, 2.5),
    (str, "x", "x"),
    (Tag, "x", Tag("x")),
    (Level, 1, Level.LOW),
    (Colour, "red", Colour.RED),
    (UUID, ID, UUID(ID)),
    (Decimal, "1.50", Decimal("1.50")),
    (Decimal, 1.5, Decimal("1.5")),
    (Decimal, 2, Decimal(2)),
    (datetime, "2030-01-02T03:04:05+00:00", datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)),
    (date, "2030-01-02", date(2030, 1, 2)),
    (time, "03:04", time(3, 4)),
    (Path, "a/b", Path("a/b")),
    (PurePath, "a/b", PurePath("a/b")),
    (Literal["a", 1], 1, 1),
    (list, [1, "a"], [1, "a"]),
    (list[int], [1, 2], [1, 2]),
    (set[int], [1, 1], {1}),
    (frozenset[str], ["a"], frozenset({"a"})),
    (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    (tuple, [1, "a"], (1, "a")),
    (tuple[int, str], [1, "a"], (1, "a")),
    (dict, {"a": 1}, {"a": 1}),
    (dict[str, float], {"a": 1}, {"a": 1.0}),
    (dict[UUID, int], {ID: 1}, {UUID(ID): 1}),
    (Union[int, None], None, None),  # noqa: UP007 - another kind than int | None
    (int | str, "a", "a"),
    (Node, {"name": "a", "next": {"name": "b"}, "more": 1}, Node("a", Node("b"))),
    (Node, {"name": "a", "seen": 9}, Node("a")),
    (Even, {"n": 2}, Even(2, [])),
]


@pytest.mark.parametrize(("wanted", "given", "made"), TAKEN, ids=lambda each: str(each)[:30])
def test_what_each_type_takes(wanted: Any, given: Any, made: Any) -> None:
    found = converter(wanted)(given, "$")
    assert found == made
    assert type(found) is type(made)


REFUSED: list[tuple[Any, Any, str]] = [
    (bool, 1, "$: must be a boolean, not a number"),
    (int, True, "$: must be a whole number, not a boolean"),
    (int, 1.0, "$: must be a whole number, not a number"),
    (Level, 2, "$: 2 is not a valid Level"),
    (float, "1", "$: must be a number, not text"),
    (float, True, "$: must be a number, not a boolean"),
    (str, None, "$: must be text, not null"),
    (type(None), {}, "$: must be null, not an object"),
    (UUID, 1, "$: must be a UUID as text, not a number"),
    (UUID, "x", "$: badly formed hexadecimal UUID string"),
    (Decimal, True, "$: must be a number, or one as text, not a boolean"),
    (Decimal, [], "$: must be a number, or one as text, not an array"),
    (datetime, 1, "$: must be a date and time as text, not a number"),
    (date, 1, "$: must be a date as text, not a number"),
    (time, 1, "$: must be a time as text, not a number"),
    (Path, 1, "$: must be a path as text, not a number"),
    (PurePath, 1, "$: must be a path as text, not a number"),
    (Literal["a", 1], True, "$: must be one of 'a', 1, not a boolean"),
    (Literal["a", 1], "b", "$: must be one of 'a', 1, not text"),
    (list[int], {}, "$: must be an array, not an object"),
    (list[int], [1, "a"], "$[1]: must be a whole number, not text"),
    (tuple[int, str], [1], "$: must be an array of 2, not an array"),
    (tuple[int, str], {"a": 1, "b": 2}, "$: must be an array of 2, not an object"),
    (tuple[int, str], [1, 2], "$[1]: must be text, not a number"),
    (dict[str, int], [], "$: must be an object, not an array"),
    (dict[str, int], {"a": "b"}, "$.a: must be a whole number, not text"),
    (dict[UUID, int], {"a": 1}, "$.a: badly formed hexadecimal UUID string"),
    (Node, [], "$: must be an object, not an array"),
    (Node, {}, "$.name: is missing"),
    (Node, {"name": "a", "next": {"next": None}}, "$.next.name: is missing"),
    (Node, {"name": "a", "next": {"name": 1}}, "$.next.name: must be text, not a number"),
    (Node, {"name": "a", "next": 1}, "$.next: must be an object, not a number"),
    (Even, {"n": 1}, "$: odd"),
    (int | list[int], [1, "a"], "$[1]: must be a whole number, not text"),
    (list[int] | int, [1, "a"], "$[1]: must be a whole number, not text"),
]


@pytest.mark.parametrize(("wanted", "given", "why"), REFUSED, ids=lambda each: str(each)[:30])
def test_what_is_refused_and_where(wanted: Any, given: Any, why: str) -> None:
    with pytest.raises(NotOfTypeError) as caught:
        converter(wanted)(given, "$")
    assert str(caught.value) == why
    assert f"{caught.value.path}: {caught.value.why}" == why


def test_a_number_that_is_none_is_named() -> None:
    with pytest.raises(NotOfTypeError, match=r"^\$: \[<class 'decimal\.ConversionSyntax'>\]$"):
        converter(Decimal)("x", "$")


def test_a_type_of_no_json_is_named() -> None:
    with pytest.raises(UsageError, match=r"is no type that gapless can make of JSON: use pydantic"):
        converter(complex)
    with pytest.raises(UsageError, match="bytes"):
        converter(list[bytes])


@dataclass
class Astray:
    n: Nowhere  # type: ignore[name-defined]  # noqa: F821


def test_a_type_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        converter(Astray)
    assert str(caught.value) == "payload=Astray: name 'Nowhere' is not defined"
