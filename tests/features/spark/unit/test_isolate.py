"""Isolation of bad events: exactly those that fail alone, whatever they stand among."""

from collections.abc import Sequence

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import UsageError
from gapless.features.spark.pipeline.isolate import (
    RowsError,
    Stretch,
    is_of_a_value,
    isolate,
    stretches,
)

START = {"a": {0: 3}, "b": {0: 1}}
END = {"a": {0: 9, 1: 6, 2: 1}, "b": {0: 1, 1: 2}}
OFFSETS = [
    *(("a", 0, n) for n in range(3, 9)),
    *(("a", 1, n) for n in range(1, 6)),
    ("b", 1, 1),
]


def places(some: Sequence[Stretch]) -> list[tuple[str, int, int]]:
    return [(s.topic, s.partition, n) for s in some for n in range(s.first, s.last + 1)]


def test_the_offsets_of_a_batch() -> None:
    assert places(stretches(START, END)) == OFFSETS


@given(bad=st.sets(st.sampled_from(OFFSETS)))
def test_those_that_fail_alone(bad: set[tuple[str, int, int]]) -> None:
    tries = 0

    def refusal(some: Sequence[Stretch]) -> str | None:
        nonlocal tries
        tries += 1
        found = sorted(bad & set(places(some)))
        return f"because of {found[0]}" if found else None

    found = list(isolate(stretches(START, END), refusal))
    assert places([each for each, _ in found]) == sorted(bad)
    assert [why for _, why in found] == [f"because of {place}" for place in sorted(bad)]
    assert tries <= 2 + 8 * max(1, len(bad)), "four halvings for each, two tries at a time"


def test_events_that_fail_only_together_are_not_blamed() -> None:
    def refusal(some: Sequence[Stretch]) -> str | None:
        return "overflow" if len(places(some)) > 3 else None

    assert list(isolate(stretches(START, END), refusal)) == []


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (RowsError("of 1 rows the key is null"), True),
        (psycopg.errors.NumericValueOutOfRange("integer out of range"), True),
        (psycopg.errors.CheckViolation("n > 0"), True),
        (RuntimeError("[CAST_INVALID_INPUT] 'x' cannot be cast. SQLSTATE: 22018"), True),
        (psycopg.errors.UndefinedTable("no table"), False),
        (psycopg.errors.CardinalityViolation("a key twice"), False),
        (psycopg.OperationalError("the connection is lost"), False),
        (RuntimeError("[UNRESOLVED_COLUMN] nokey. SQLSTATE: 42703"), False),
        (UsageError("the transform gives no column"), False),
    ],
)
def test_errors_about_a_value(error: Exception, counts: bool) -> None:
    assert is_of_a_value(error) is counts
    wrapped = UsageError("table totals")
    wrapped.__cause__ = error
    assert is_of_a_value(wrapped) is counts
