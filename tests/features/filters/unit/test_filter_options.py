"""What filter the options of a handler say, and what is said of those that are none."""

from collections import OrderedDict, UserDict
from typing import Any

import pytest

from gapless.errors import UsageError
from gapless.log.filter import ALL, Filter, filter_of

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


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ((["a"], "$.x", LOOP), "params={'self': {...}}: Circular reference detected"),
        ((["a"], "$.x", {"y": DEEP}), "params=a dict that is too deep: maximum recursion depth exceeded"),
    ],
)  # fmt: skip
def test_params_without_an_end(said: tuple[Any, ...], why: str) -> None:
    with pytest.raises(UsageError) as caught:
        filter_of(*said)
    assert str(caught.value).startswith(why)


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
