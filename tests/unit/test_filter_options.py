"""What filter the options of a handler say, and what is said of those that are none."""

from __future__ import annotations

from collections import OrderedDict, UserDict
from typing import Any

import pytest

from gapless.errors import UsageError
from gapless.log.filters import ALL, Filter, filter_of

LOOP: dict[str, Any] = {}
LOOP["self"] = LOOP
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ((None,), None),
        ((None, None, None), None),
        ((["a"],), Filter(("a",))),
        ((("a", "b*"),), Filter(("a", "b*"))),
        ((None, "$.x > 1"), Filter(None, "$.x > 1")),
        ((None, ""), Filter(None, "")),
        ((["a"], "$.x > $y", {"y": 1}), Filter(("a",), "$.x > $y", '{"y": 1}')),
        ((["a"], None, {"y": 1}), Filter(("a",), None, '{"y": 1}')),
        ((["a"], None, {}), Filter(("a",), None, "{}")),
        ((None, "$.x", OrderedDict(b=1, a=[None])), Filter(None, "$.x", '{"b": 1, "a": [null]}')),
        ((None, "$.x", UserDict({"a": "ä"})), Filter(None, "$.x", '{"a": "\\u00e4"}')),
    ],
)
def test_what_options_say(said: tuple[Any, ...], found: Filter | None) -> None:
    assert filter_of(*said) == found


TYPES = ": a list of event types, with * as wildcard"
OBJECT = ": an object with a value for each variable"
NUL = "PostgreSQL cannot store a NUL character"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((None, None, {"a": 1}), "params are the values for where, and there is none"),
        ((None, None, {}), "params are the values for where, and there is none"),
        ((None, 5), "where=5: a jsonpath, as text"),
        ((["a"], ["$.x"]), "where=['$.x']: a jsonpath, as text"),
        (("order.*",), f"event_types='order.*'{TYPES}"),
        (([],), f"event_types=[]{TYPES}"),
        (((),), f"event_types=(){TYPES}"),
        (({"a"},), f"event_types={{'a'}}{TYPES}"),
        ((["a", 5],), f"event_types=['a', 5]{TYPES}"),
        ((5,), f"event_types=5{TYPES}"),
        ((["x" * 200],), None),
        ((["a", "b\0"],), "event_types: 'b\\x00' has a NUL character, which no event type has"),
        ((["a"], "$.x", [1]), f"params=[1]{OBJECT}"),
        ((["a"], "$.x", "{}"), f"params='{{}}'{OBJECT}"),
        (
            (["a"], "$.x", {"y": float("nan")}),
            "params={'y': nan}: Out of range float values are not JSON compliant",
        ),
        ((["a"], "$.x", {"y": 1j}), "params={'y': 1j}: Object of type complex is not JSON serializable"),
        ((["a"], "$.x", LOOP), "params={'self': {...}}: Circular reference detected"),
        ((["a"], "$.x", {"y": DEEP}), "params=a dict that is too deep: maximum recursion depth exceeded"),
        ((["a"], "$.x", {"y": "a\0"}), f"params={{'y': 'a\\x00'}}: {NUL}"),
    ],
)  # fmt: skip
def test_what_is_no_filter(said: tuple[Any, ...], why: str | None) -> None:
    if why is None:
        assert filter_of(*said) is not None
        return
    with pytest.raises(UsageError) as caught:
        filter_of(*said)
    assert str(caught.value).startswith(why)


def test_what_is_long_is_cut() -> None:
    with pytest.raises(UsageError) as caught:
        filter_of(None, list(range(100)))
    assert str(caught.value) == f"where={repr(list(range(100)))[:100]}: a jsonpath, as text"


@pytest.mark.parametrize(
    ("wanted", "text", "takes_all"),
    [
        (ALL, "", False),
        (Filter(("*",)), "*", True),
        (Filter(("a", "*")), "a, *", True),
        (Filter(("a", "b*")), "a, b*", False),
        (Filter(("*",), "$.x"), "* where $.x", False),
        (Filter(None, "$.x"), "where $.x", False),
        (Filter(None, ""), "where ", False),
    ],
)
def test_a_filter_in_words(wanted: Filter, text: str, takes_all: bool) -> None:
    assert str(wanted) == text
    assert wanted.takes_all is takes_all


def test_what_a_query_is_given() -> None:
    assert ALL.query_params == {"event_types": None, "where": None, "params": "{}"}
    assert Filter(("a",), "$.x", "[]").query_params == {
        "event_types": ["a"],
        "where": "$.x",
        "params": "[]",
    }
