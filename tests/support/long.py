"""The tests, and the parameters of tests, that the default run leaves to --long."""

from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")


def long_but(values: Iterable[T], *default: T) -> list[T | object]:
    """Return the values for parametrize(), with all but those of `default` marked long."""
    return [
        value if value in default else pytest.param(value, marks=pytest.mark.long)
        for value in values
    ]


def mark_but_few(items: Iterable[pytest.Item]) -> None:
    """Mark parameters of a test with `few(count)` long, all but `count`, evenly spread."""
    tests: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    for each in tests.values():
        mark = each[0].get_closest_marker("few")
        if mark is None or len(each) <= mark.args[0]:
            continue
        kept = {number * len(each) // mark.args[0] for number in range(mark.args[0])}
        for number, item in enumerate(each):
            if number not in kept:
                item.add_marker(pytest.mark.long)
