"""One test that checks many things names all that fail, and proves nothing for an empty list."""

import pytest

from support.every import every


def _even(number: int) -> None:
    assert number % 2 == 0, "odd"
    if number == 6:
        raise ValueError("no number of ours")


def test_all_that_pass_are_silent() -> None:
    every(_even, [0, 2, 4], str)


def test_all_that_fail_are_named_with_why() -> None:
    with pytest.raises(AssertionError) as failed:
        every(_even, (n for n in (1, 2, 3, 6)), lambda number: f"number {number}")
    lines = str(failed.value).splitlines()
    assert [line for line in lines if line.startswith("number")] == [
        "number 1: AssertionError: odd",
        "number 3: AssertionError: odd",
        "number 6: ValueError: no number of ours",
    ]


def test_nothing_to_check_is_a_failure() -> None:
    with pytest.raises(AssertionError, match="nothing to check"):
        every(_even, [], str)
