"""JSON by an encoder that is made now, the one of C and the one that stands in for it; read with msgspec and without."""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless.log import codec

Encode = Callable[[object], str]
ID = UUID(int=1)
ZONE = timezone(timedelta(hours=2))


@pytest.fixture(params=["of C", "of Python"])
def encode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Encode:
    if request.param == "of Python":
        monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    return codec.encoder()


class State(Enum):
    OPEN = "open"


class Colour(IntEnum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: float


class Name(str):
    __slots__ = ()


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


class Fields(Model):
    """A model that can be iterated over, and is one payload."""

    def __iter__(self) -> Iterator[tuple[str, int]]:
        yield "a", 1


class Odd:
    model_dump = 5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [1, None, True]}, '{"b":1,"a":[1,null,true]}'),
        ({1: "ä\u2028"}, '{"1":"ä\u2028"}'),
        ([Line("x"), Struct(), Model()], '[{"sku":"x"},{"n":1},{"mode":"json"}]'),
        ({}, "{}"),
        (
            {"at": datetime(2026, 1, 2, 3, 4, 5, 678, ZONE)},
            '{"at":"2026-01-02T03:04:05.000678+02:00"}',
        ),
        ([State.OPEN, Colour.RED, Decimal("9.90"), ID], f'["open",1,"9.90","{ID}"]'),
        ([date(2026, 1, 2), time(1, 2, 3)], '["2026-01-02","01:02:03"]'),
        (PurePosixPath("a/b"), '"a/b"'),
        (2**80, str(2**80)),
    ],
)
def test_it_writes_what_is_there_as_short_as_can_be(
    encode: Encode, value: object, text: str
) -> None:
    assert encode(value) == text


KEYS = st.text() | st.integers() | st.none() | st.booleans() | st.floats(allow_nan=False)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from([Colour.RED, Point(1, 2.5), Name("ä\n"), OrderedDict(b=1, a=[])])
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(KEYS, inner)
)


def _text(encode: Encode, value: object) -> object:
    try:
        return encode(value)
    except (TypeError, ValueError) as error:  # an infinite key, for one
        return str(error)


@pytest.mark.long
@given(VALUES)
def test_it_writes_what_json_writes(value: object) -> None:
    dumps = partial(json.dumps, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    assert _text(codec.encode, value) == _text(dumps, value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_of_json_is_refused(encode: Encode, number: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode([number])


def test_a_key_that_is_no_text_is_refused_and_not_left_out(encode: Encode) -> None:
    with pytest.raises(TypeError, match="keys must be str"):
        encode({(1, 2): 3})


@pytest.mark.parametrize("value", [object(), {1}, b"x", Line, Struct, Model, Never(1), Odd(), 1j])
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
        (Fields(), True),
        ({"a": 1}, False),
        ([Line("x")], False),
        ("text", False),
    ],
)
def test_what_is_one_value_and_not_many(value: object, is_one: bool) -> None:
    assert codec.is_record(value) is is_one


_SPACE = st.text(" \t\r\n", max_size=2)
_DIGITS = st.integers(0, 10**40).map(str)
_NUMBER = st.one_of(
    st.tuples(st.sampled_from(["", "-"]), _DIGITS).map("".join),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.tuples(_DIGITS, _DIGITS, st.sampled_from("eE"), st.integers(-400, 400)).map(
        "{0[0]}.{0[1]}{0[2]}{0[3]:+}".format
    ),
    st.sampled_from(["9" * 4300, "9" * 4301, "1e400", "2.4703282292062327e-324", "-0", "-0e9999"]),
)
_CHARACTERS = st.text(st.characters(exclude_characters='"\\', exclude_categories=["Cs", "Cc"]))
_ESCAPE = st.sampled_from(list('"\\/bfnrt')) | st.integers(0, 0xFFFF).map("u{:04x}".format)
_PAIR = st.integers(0x10000, 0x10FFFF).map(
    lambda n: f"\\uD{(n - 0x10000 >> 10) + 0x800:03X}\\ud{(n & 0x3FF) + 0xC00:03x}"
)
_STRING = st.lists(_CHARACTERS | _ESCAPE.map("\\{}".format) | _PAIR, max_size=4).map(
    lambda parts: '"' + "".join(parts) + '"'
)
_CONSTANT = st.sampled_from(["null", "true", "false", "NaN", "Infinity", "-Infinity"])
_NAME = st.sampled_from(['"a"', '"\\u0061"', '"b"', '""']) | _STRING


def _grown(texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(_NAME, _SPACE, texts).map("{0[0]}{0[1]}:{0[2]}".format)
    return st.lists(texts, max_size=4).map(lambda each: f"[{','.join(each)}]") | st.lists(
        pairs, max_size=5
    ).map(lambda each: f"{{{','.join(each)}}}")


_VALUE = st.tuples(
    _SPACE, st.recursive(_NUMBER | _STRING | _CONSTANT, _grown, max_leaves=12), _SPACE
).map("".join)
_JUNK = st.sampled_from(["", "1", ",", "]", " x", "\t", "\0", "\\", '"', "-", "\ufeff", "\ud800"])
_BROKEN = st.tuples(_VALUE, _JUNK, st.integers(0, 30), st.integers(0, 2)).map(
    lambda said: said[0][: said[2]] + said[1] + said[0][said[2] + said[3] :]
)
_DEEP = st.tuples(_VALUE, st.integers(1, 300)).map(lambda x: "[" * x[1] + x[0] + "]" * x[1])


def _exact(value: object) -> object:
    """A value with its type, the order of its names, and each bit of a float."""
    if isinstance(value, dict):
        return [(name, _exact(each)) for name, each in value.items()]
    if isinstance(value, list):
        return tuple(map(_exact, value))
    return type(value), value.hex() if isinstance(value, float) else value


def _read(reader: Callable[[bytes], Any], raw: bytes) -> object:
    try:
        return _exact(reader(raw))
    except ValueError as error:
        return str(error)


@given((_VALUE | _NUMBER | _BROKEN | _DEEP).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=300)
@example(b"[1.2345678901234567e+300,1.7976931348623158e308,0.1,-0,-0.0,18446744073709551616]")
@example(b'"\xff"')
@example(b"\xef\xbb\xbf1")
@example(b"")
def test_json_is_read_as_json_reads_it(raw: bytes) -> None:
    """With msgspec or without: the same value to the last bit, or the same complaint."""
    expected = _read(lambda raw: json.JSONDecoder().decode(raw.decode()), raw)
    for module in (msgspec, None):
        assert _read(codec.reader(module), raw) == expected
