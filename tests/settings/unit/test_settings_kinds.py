"""The types of settings: what text they take and what they refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.settings.kinds import Choice, Dsn, Items, RefusedValueError, Text, Truth, Whole

NUMBER = Whole(low=-5, high=100)


NO_DECIMAL = ["abc", "1_0", "10.0", "0x6", "010", "+5", "1e1", "1 0", "--1", "-", "\u0661"]
OUT_OF_RANGE = ["101", 101, -6, "9" * 5000]
OTHER_TYPES = ["", "  ", None, "true", True, 1.0, (1,)]


@pytest.mark.parametrize("raw", [*NO_DECIMAL, *OUT_OF_RANGE, *OTHER_TYPES])
def test_what_is_no_whole_number_in_range(raw: object) -> None:
    with pytest.raises(RefusedValueError):
        NUMBER.parse(raw)
    assert len(NUMBER.show(raw)) < 70


@given(st.text(st.sampled_from("0123456789-+_.x \n\u0661"), max_size=25))
def test_any_text_is_a_number_in_range_or_refused(text: str) -> None:
    try:
        value = NUMBER.parse(text)
    except RefusedValueError:
        return
    assert isinstance(value, int)
    assert -5 <= value <= 100


@given(st.integers(-5, 100))
def test_every_number_in_range_is_itself(number: int) -> None:
    assert (
        NUMBER.parse(number) == NUMBER.parse(str(number)) == NUMBER.parse(f" {number}\n") == number
    )


WORD = Whole(low=1, high=9, word="auto")


def test_a_number_or_a_word_and_nothing_else() -> None:
    assert [WORD.parse(raw) for raw in ("auto", " auto\n", "9", 1)] == ["auto", "auto", 9, 1]
    for raw in ("Auto", "automatic", "0", "10", "", True, "auto 1"):
        with pytest.raises(RefusedValueError):
            WORD.parse(raw)
    with pytest.raises(RefusedValueError):
        NUMBER.parse("auto")


def test_truth() -> None:
    kind = Truth()
    for word in ("true", "True", "YES", "on", "y", " true ", True):
        assert kind.parse(word) is True
    for word in ("false", "No", "OFF", "n", False):
        assert kind.parse(word) is False
    for word in ("", None, "1", "ja", 1, "truetrue"):
        with pytest.raises(RefusedValueError):
            kind.parse(word)


def test_empty_is_null_only_where_null_means_something() -> None:
    item = Text(longest=5)
    for kind in (NUMBER, Truth(), Choice(words=("a",)), item, Dsn(), Items(item=item)):
        for empty in ("", " \n", None):
            with pytest.raises(RefusedValueError):
                kind.parse(empty)
    assert Whole(low=1, high=2, null="no limit").parse("") is None
    assert Items(item=item, null="none").parse("") == ()
    assert Items(item=item, null="none").parse([]) == ()


def test_a_refused_value_is_shown_short_and_a_dsn_never() -> None:
    assert NUMBER.show("a\nb") == r"'a\nb'"
    assert NUMBER.show("") == NUMBER.show(None) == Dsn().show("") == "empty"
    assert Dsn().show("postgresql://u:secret@h/db") == "not usable"
