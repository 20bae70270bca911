"""Plain events of an array are read at once, and to the same events as one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless.gateway.plain import plain_events
from gapless.log.event import NewEvent
from gapless.ops.load.parse import LineShape, elements, parse_line

ENOUGH = 1 << 20
NAMES = ("payload", "key", "event_type", "headers", "host_id", "user_id")

_texts = st.text(st.sampled_from('aé"\\/ \n\t\0😀\ud800key'), max_size=4)
_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _texts | st.sampled_from(NAMES),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_texts | st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=5,
)
_fields = st.fixed_dictionaries(
    {"payload": _values},
    optional={
        **dict.fromkeys(("key", "event_type", "host_id", "user_id"), _texts | st.just("k")),
        "headers": st.dictionaries(_texts | st.sampled_from(NAMES), _values, max_size=2),
    },
)
_wrong = st.dictionaries(st.sampled_from((*NAMES, "deliver_in", "x")), _values, max_size=1)
WRONG = ["", '"', "\\u0061", "\\", "0", "-", ".", "e", "]", "}", "\x01", "NaN"]
_blanks = st.sampled_from(["", "", " ", "\n\t", "\r", "\v"])


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """An array of events, as programs write them, and then a few characters that are wrong."""
    made = []
    is_usual = draw(st.booleans())
    for fields in draw(st.lists(_fields, max_size=3)):
        ascii_only = draw(st.booleans())
        members = [
            f"{draw(_blanks)}{json.dumps(name)}:{json.dumps(value, ensure_ascii=ascii_only)}"
            for name, value in (fields if is_usual else fields | draw(_wrong)).items()
        ]
        if not is_usual and draw(st.booleans()):
            members.append(draw(st.sampled_from(members)))
        made.append("{" + ",".join(members) + draw(_blanks) + "}")
    text = "[" + ",".join(made) + "]" + draw(_blanks)
    for _ in range(0 if is_usual else draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        new = draw(st.sampled_from(WRONG))
        text = text[:at] + new + text[at + draw(st.integers(0, 2)) :]
    return text.encode("utf-8", "replace")


def one_by_one(body: bytes) -> list[NewEvent] | str:
    try:
        return [parse_line(text, LineShape()) for text in elements(body.decode())]
    except ValueError as error:
        return str(error)


@settings(max_examples=400)
@given(bodies())
@example(b'[{"payload":1,"payload":2}]')
@example(b'[{"payload":{"key":1},"key":"a","\\u006bey":"b"}]')
@example(b'[{"payload":1,"headers":[]}]')
@example(b'[{"payload":1,"key":7}]')
@example(b'[{"payload":01}]')
@example(b'[{"payload":"\x01"}]')
@example(b'[{"payload":"\\x"}]')
@example(b'[{"payload":"\\ud800"}]')
def test_they_are_the_same(body: bytes) -> None:
    found = plain_events(body.decode(), ENOUGH)
    if found:
        assert found == one_by_one(body)


@pytest.mark.parametrize(
    "body",
    [
        b'[{"payload":{"key":"x","n":1.50},"key":"a"}]',
        b' [ {"event_type" : "t", "payload": "\\"key\\" \xc3\xa9", "host_id": ""} ] ',
        b'[{"payload":null,"headers":{"a":[1,2.50]},"user_id":"u"},{"payload":[]}]',
    ],
)
def test_usual_ones_are_read_at_once(body: bytes) -> None:
    found = plain_events(body.decode(), ENOUGH)
    assert found
    assert found == one_by_one(body)


def test_one_that_is_too_large_is_left_to_who_says_so() -> None:
    body = b'[{"payload":1},{"payload":"%s"}]' % (b"x" * 100)
    assert plain_events(body.decode(), 50) == []
