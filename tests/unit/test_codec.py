"""JSON by an encoder that is made now, the one of C and the one that stands in for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from gapless.log import codec

Encode = Callable[[object], str]


@pytest.fixture(params=["of C", "of Python"])
def encode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Encode:
    if request.param == "of Python":
        monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    return codec.encoder()


@dataclass
class Line:
    sku: str


@dataclass
class Never(codec.NotJson):
    n: int


class Struct(msgspec.Struct):
    n: int = 1


class Model:
    """As pydantic's models look from outside."""

    def model_dump(self, *, mode: str) -> dict[str, str]:
        return {"mode": mode}


class Odd:
    model_dump = 5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1, None, True]}, '{"b":1,"a":[1,null,true]}'),
        ({1: "ä\u2028"}, '{"1":"ä\u2028"}'),
        ([Line("x"), Struct(), Model()], '[{"sku":"x"},{"n":1},{"mode":"json"}]'),
        ({}, "{}"),
    ],
)
def test_it_writes_what_is_there_as_short_as_can_be(
    encode: Encode, value: object, text: str
) -> None:
    assert encode(value) == text


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_of_json_is_refused(encode: Encode, number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode([number])


def test_a_key_that_is_no_text_is_refused_and_not_left_out(encode: Encode) -> None:
    with pytest.raises(TypeError, match="keys must be str"):
        encode({(1, 2): 3})


@pytest.mark.parametrize("value", [object(), {1}, Line, Struct, Model, Never(1), Odd(), 1j])
def test_what_has_no_form_in_json_is_named(encode: Encode, value: object) -> None:
    with pytest.raises(TypeError) as refused:
        encode([value])
    name = type(value).__name__
    assert str(refused.value) == f"Object of type {name} is not JSON serializable"


def test_what_contains_itself_ends() -> None:
    """Also where nobody looks for it: looking costs."""
    value: list[Any] = []
    value.append(value)
    with pytest.raises(RecursionError):
        codec.encoder()(value)


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        (Line("x"), True),
        (Struct(), True),
        (Model(), True),
        ({"a": 1}, False),
        ([Line("x")], False),
        ("text", False),
    ],
)
def test_what_is_one_value_and_not_many(value: object, is_one: bool) -> None:
    assert codec.is_record(value) is is_one
