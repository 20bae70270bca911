"""What publish() makes of a payload is what json.dumps() makes of it, letter for letter."""

from __future__ import annotations

import json
from collections import OrderedDict
from enum import IntEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.log import record as publish

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


@given(VALUES)
def test_it_is_the_same(value: object) -> None:
    assert outcome(publish._encode, value) == outcome(dumps, value)


@pytest.mark.parametrize(
    "value",
    [_Colour.RED, _Point(1, 2.5), _Name("ä\n"), OrderedDict(b=1, a=[]), {_Name("k"): _Colour.RED}],
)
def test_of_subclasses_too(value: object) -> None:
    assert publish._encode(value) == dumps(value)


@pytest.mark.parametrize("there", [None, lambda: None])
def test_on_a_python_without_the_encoder_of_c(
    monkeypatch: pytest.MonkeyPatch, there: object
) -> None:
    """Or with one that takes other arguments."""
    monkeypatch.setattr(json.encoder, "c_make_encoder", there)
    encode = publish._encoder()
    monkeypatch.undo()
    assert encode({"ä": [1, None]}) == '{"ä":[1,null]}'
