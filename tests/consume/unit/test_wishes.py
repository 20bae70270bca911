"""What a handler may raise as a wish: the bounds of its delay, and its words."""

import pickle
import pydoc
import traceback
from datetime import timedelta
from typing import Any

import pytest

from gapless.consume.verdict.wish import (
    AFTER_S_MAX,
    WISHES,
    DeadLetter,
    InvalidEventError,
    PayloadError,
    Retry,
    Skip,
    seconds,
)


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (0, 0.0), (0.0, 0.0), (0.25, 0.25), (1, 1.0), (AFTER_S_MAX, float(AFTER_S_MAX)),
        (timedelta(0), 0.0), (timedelta(milliseconds=500), 0.5), (timedelta(days=366), 31_622_400.0),
    ],
)  # fmt: skip
def test_a_delay_is_so_many_seconds(delay: Any, expected: float) -> None:
    found = seconds(delay)
    assert (type(found), found) == (float, expected)
    assert Retry(after=delay).after == expected


@pytest.mark.parametrize(
    ("delay", "kind", "why"),
    [
        (-0.001, ValueError, "0 to 31622400 seconds"),
        (-1, ValueError, "0 to 31622400 seconds"),
        (AFTER_S_MAX + 1, ValueError, "0 to 31622400 seconds"),
        (timedelta(days=366, microseconds=1), ValueError, "0 to 31622400 seconds"),
        (timedelta(microseconds=-1), ValueError, "0 to 31622400 seconds"),
        (float("nan"), ValueError, "0 to 31622400 seconds"),
        (True, TypeError, "a number of seconds, or a timedelta"),
        (False, TypeError, "a number of seconds, or a timedelta"),
        ("5", TypeError, "a number of seconds, or a timedelta"),
        (None, TypeError, "a number of seconds, or a timedelta"),
    ],
)
def test_what_is_no_delay_is_told(delay: Any, kind: type[Exception], why: str) -> None:
    with pytest.raises(kind) as caught:
        seconds(delay)
    assert str(caught.value) == why
    with pytest.raises(kind) as caught:
        Retry(after=delay)
    assert str(caught.value) == f"Retry(after={delay!r}): {why}"


def test_what_they_say() -> None:
    assert (str(Retry()), Retry().after) == ("the handler asked for another attempt", 0.0)
    for kind in (Retry, DeadLetter, InvalidEventError, Skip):
        assert str(kind("positional")) == "positional"
        assert str(kind(reason="by name")) == "by name"
    assert (str(Skip()), Skip().args) == ("", ("",))


@pytest.mark.parametrize("kind", [*WISHES, InvalidEventError, PayloadError])
def test_people_read_the_public_name(kind: type[Exception]) -> None:
    name = traceback.format_exception_only(kind("why"))[0].partition(":")[0]
    assert name == f"gapless.{kind.__name__}"
    assert pydoc.locate(name) is kind


@pytest.mark.parametrize("wish", [Retry("r", after=2.5), DeadLetter("d"), Skip("s"), Skip()])
def test_they_survive_a_process_border(wish: Exception) -> None:
    found = pickle.loads(pickle.dumps(wish))
    assert (type(found), found.args, vars(found)) == (type(wish), wish.args, vars(wish))
