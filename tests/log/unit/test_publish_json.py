"""What publish() makes of a payload is what json.dumps() makes of it, letter for letter."""

import json
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.log import codec
from gapless.log.event import NewEvent
from gapless.log.given import given as events_of

KEYS = st.text() | st.integers() | st.none() | st.booleans() | st.floats(allow_nan=False)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(KEYS, inner)
)


class _Colour(IntEnum):
    RED = 1


class _Point(NamedTuple):
    x: int
    y: float


class _Name(str):
    __slots__ = ()


def dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def outcome(encode: Any, value: object) -> object:
    try:
        return encode(value)
    except (TypeError, ValueError) as error:  # an infinite key, for one
        return str(error)


@pytest.mark.long
@given(VALUES)
def test_it_is_the_same(value: object) -> None:
    assert outcome(codec.encode, value) == outcome(dumps, value)


@pytest.mark.parametrize(
    "value",
    [_Colour.RED, _Point(1, 2.5), _Name("ä\n"), OrderedDict(b=1, a=[]), {_Name("k"): _Colour.RED}],
)
def test_of_subclasses_too(value: object) -> None:
    assert codec.encode(value) == dumps(value)


@pytest.mark.parametrize("there", [None, lambda: None])
def test_on_a_python_without_the_encoder_of_c(
    monkeypatch: pytest.MonkeyPatch, there: object
) -> None:
    """Or with one that takes other arguments."""
    monkeypatch.setattr(json.encoder, "c_make_encoder", there)
    encode = codec.encoder()
    monkeypatch.undo()
    assert encode({"ä": [1, None]}) == '{"ä":[1,null]}'


@dataclass(frozen=True)
class _Line:
    sku: str
    price: Decimal
    tags: list[str] = field(default_factory=list)


@dataclass
class _Order:
    order_id: UUID
    lines: list[_Line]
    placed: datetime


class _State(Enum):
    OPEN = "open"


class _Model:
    """As pydantic's models look from outside."""

    def model_dump(self, *, mode: str) -> dict[str, object]:
        return {"mode": mode, "at": date(2026, 1, 2)}


class _Struct(msgspec.Struct):
    """msgspec writes it."""

    a: int = 1
    b: time = time(1, 2, 3)


ID = UUID("00000000-0000-0000-0000-000000000001")
ZONE = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            _Order(ID, [_Line("a", Decimal("9.90"), ["x"])], datetime(2026, 1, 2, tzinfo=UTC)),
            f'{{"order_id":"{ID}","lines":[{{"sku":"a","price":"9.90","tags":["x"]}}],"placed":"2026-01-02T00:00:00+00:00"}}',
        ),
        ({"at": datetime(2026, 1, 2, 3, 4, 5, 678, ZONE)}, '{"at":"2026-01-02T03:04:05.000678+02:00"}'),
        ([_State.OPEN, _Colour.RED], '["open",1]'),
        (_Model(), '{"mode":"json","at":"2026-01-02"}'),
        (_Struct(), '{"a":1,"b":"01:02:03"}'),
        (PurePosixPath("a/b"), '"a/b"'),
        (2**80, str(2**80)),
    ],
)  # fmt: skip
def test_what_programs_have_in_hand(value: object, text: str) -> None:
    assert codec.encode(value) == text
    codec.decode(text)


@pytest.mark.parametrize(
    "value", [{1, 2}, b"x", object(), float("nan"), float("inf"), _Line, _Model, 1j]
)
def test_what_has_no_one_meaning_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        codec.encode({"value": value})


def test_integers_of_any_size_survive() -> None:
    assert codec.decode(codec.encode({"n": 10**40}))["n"] == 10**40


def test_a_model_that_can_be_iterated_over_is_one_payload() -> None:
    class Fields(_Model):
        def __iter__(self) -> Iterator[tuple[str, int]]:
            yield "a", 1

    (event,) = events_of(Fields(), {})
    assert isinstance(event, NewEvent)
    assert codec.encode(event.payload) == '{"mode":"json","at":"2026-01-02"}'
