"""One check of many things as one test: a test for each would cost more than the check itself."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def every(check: Callable[[T], object], things: Iterable[T], named: Callable[[T], object]) -> None:
    """Check each thing, and name all that fail, with the reason; an empty list fails, too."""
    wrong = []
    thing = None
    for thing in things:
        try:
            check(thing)
        except Exception as why:  # noqa: BLE001 - an error is a failure, too
            wrong.append(f"{named(thing)}: {type(why).__name__}: {why}")
    assert thing is not None, "nothing to check"
    assert not wrong, "\n".join(wrong)
