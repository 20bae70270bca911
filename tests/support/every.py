"""One check of many things as one test: a test for each would cost more than what it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def every(check: Callable[[T], object], things: Iterable[T], named: Callable[[T], object]) -> None:
    """Check each of them, and name all that fail, with why; what is not there cannot be checked."""
    wrong = []
    thing = None
    for thing in things:
        try:
            check(thing)
        except Exception as why:  # noqa: BLE001 - an error fails it as well
            wrong.append(f"{named(thing)}: {type(why).__name__}: {why}")
    assert thing is not None, "nothing to check"
    assert not wrong, "\n".join(wrong)
