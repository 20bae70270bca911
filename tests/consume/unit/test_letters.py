"""Exception texts: whatever was raised becomes text that is short enough and can be stored (I9)."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.consume.verdict.failure import EXCEPTION_CHARS_MAX, Failure, describe
from support.every import every
from support.hostile import HOSTILE


def storable(text: str) -> bool:
    text.encode()
    return "\0" not in text and 0 < len(text) <= EXCEPTION_CHARS_MAX <= 16_384


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("raised", [True, False], ids=["raised", "never raised"])
def test_is_readable(name: str, raised: bool) -> None:
    make, word = HOSTILE[name]
    error = make()
    if raised:
        error = caught(error)
    text = describe(error)
    assert storable(text)
    assert word in text, text
    assert ("Traceback (most recent call last)" in text) >= raised or "could not be had" in text


def test_the_one_line_of_a_group_is_its_own() -> None:
    error = caught(ExceptionGroup("two", [ValueError("v"), KeyError("k")]))
    assert Failure(error=error).params()["reason"] == "ExceptionGroup: two (2 sub-exceptions)"
    assert Failure(error=ValueError("first\nlast")).params()["reason"] == "last"


def caught(error: BaseException) -> BaseException:
    with pytest.raises(type(error)) as info:
        raise error
    return info.value


@given(st.text(alphabet=st.characters(codec=None)))
def test_any_text(words: str) -> None:
    text = describe(ValueError(words))
    assert storable(text)
    assert text.startswith("ValueError")


def test_both_ends_are_kept() -> None:
    def check(characters: int) -> None:
        text = describe(ValueError("<" + "x" * characters + ">"))
        assert storable(text)
        assert text.startswith("ValueError: <x")
        assert text.endswith("x>")

    every(check, (EXCEPTION_CHARS_MAX + n for n in range(-40, 100)), str)


def test_nothing_is_left_out_of_what_fits() -> None:
    words = "x" * (EXCEPTION_CHARS_MAX - len("ValueError: "))
    assert describe(ValueError(words)) == f"ValueError: {words}"


def test_the_last_frames_are_shown() -> None:
    def recurse(n: int) -> None:
        if n:
            recurse(n - 1)
        else:
            innermost()

    def innermost() -> None:
        raise ValueError("here")

    def call(function: Callable[[int], None]) -> BaseException:
        try:
            function(100)
        except ValueError as error:
            return error
        raise AssertionError

    text = describe(call(recurse))
    assert "in innermost" in text
    assert "in call" not in text
