"""Find the events of a batch that its transform or its target refuses, by trying parts of it.

Only an error about a value counts: a cast that fails, a value that a column refuses, a row without
its key. An event is bad if it fails alone; if none does, the batch fails as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import psycopg

from gapless.errors import UsageError
from gapless.features.spark.offsets import Offsets
from gapless.features.spark.session import sentence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ISOLATED_MAX = 100  # in a batch: each takes some forty tries of half a second
_OF_A_VALUE = re.compile(r"SQLSTATE: 22\w{3}")


class RowsError(UsageError):
    """The target refuses rows for their values."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The offsets of a partition from first to last, both inclusive."""

    topic: str
    partition: int
    first: int
    last: int

    @property
    def events(self) -> int:
        return self.last - self.first + 1


def is_of_a_value(error: BaseException) -> bool:
    """Tell whether an error is about the values of rows, and another try would fail alike."""
    cause = error.__cause__
    if isinstance(error, RowsError | psycopg.DataError | psycopg.IntegrityError):
        return True
    if _OF_A_VALUE.search(str(error)):
        return True
    return cause is not None and is_of_a_value(cause)


def reason_of(error: BaseException) -> str:
    """Return the reason for people, in one line."""
    return sentence(error)[:500]


def stretches(start: Offsets, end: Offsets) -> list[Stretch]:
    """Return the offsets from one place to another."""
    return [
        Stretch(topic, partition, start.get(topic, {}).get(partition, 1), last - 1)
        for topic, partitions in sorted(end.items())
        for partition, last in sorted(partitions.items())
        if last > start.get(topic, {}).get(partition, 1)
    ]


def isolate(
    within: Sequence[Stretch], refusal: Callable[[Sequence[Stretch]], str | None]
) -> Iterator[tuple[Stretch, str]]:
    """Yield each event that fails alone, as a stretch of one, with the reason.

    refusal: tries some events; returns the reason when they are refused. Before: `within` was.
    """
    if sum(each.events for each in within) == 1:
        why = refusal(within)
        if why is not None:
            yield within[0], why
        return
    for half in _halves(within):
        if sum(each.events for each in half) == 1 or refusal(half) is not None:
            yield from isolate(half, refusal)


def _halves(within: Sequence[Stretch]) -> tuple[list[Stretch], list[Stretch]]:
    left: list[Stretch] = []
    right: list[Stretch] = []
    room = sum(each.events for each in within) // 2
    for each in within:
        taken = min(room, each.events)
        room -= taken
        if taken:
            left.append(Stretch(each.topic, each.partition, each.first, each.first + taken - 1))
        if taken < each.events:
            right.append(Stretch(each.topic, each.partition, each.first + taken, each.last))
    return left, right


def inside(events: DataFrame, some: Sequence[Stretch]) -> DataFrame:
    """Return the events of these offsets."""
    return events.where(_condition(some))


def outside(events: DataFrame, some: Sequence[Stretch]) -> DataFrame:
    """Return the events of all other offsets."""
    return events.where(~_condition(some)) if some else events


def _condition(some: Sequence[Stretch]) -> Column:
    """Before: there are some."""
    from pyspark.sql.functions import col

    def one(each: Stretch) -> Column:
        place: Column = (col("topic") == each.topic) & (col("partition") == each.partition)
        return place & col("offset").between(each.first, each.last)

    return reduce(or_, map(one, some))
