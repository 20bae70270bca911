"""Cut what is to be read into even ranges, and bundle small ones into one Spark task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Some neighbouring offsets of a partition, both ends inclusive.

    archive: the folder they are read from, because the log has dropped them; None is the log.
    """

    topic: str
    topic_id: int
    partition_id: int
    first_offset: int
    last_offset: int
    archive: str | None = None

    @property
    def events(self) -> int:
        return self.last_offset - self.first_offset + 1

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition_id}@{self.first_offset}..{self.last_offset}"


def plan_tasks(
    ranges: Iterable[Range], *, events_max: int, tasks_min: int
) -> list[tuple[Range, ...]]:
    """Return what each Spark task reads: ranges that together have events_max events at most.

    A large range becomes several even ones; small ones share a task. With tasks_min, the limit is
    lowered until there are as many tasks, as long as there are as many events.
    """
    whole = [each for each in ranges if each.events > 0]
    total = sum(each.events for each in whole)
    # Rounded up, few events may make too few tasks; rounded down, many may make one too many.
    tasks = _packed(whole, max(1, min(events_max, -(-total // tasks_min))))
    if len(tasks) < min(tasks_min, total):
        tasks = _packed(whole, max(1, min(events_max, total // tasks_min)))
    return tasks


def _packed(ranges: list[Range], limit: int) -> list[tuple[Range, ...]]:
    pieces = [piece for each in ranges for piece in _even(each, limit)]
    tasks: list[list[Range]] = []
    used = 0
    for piece in pieces:
        if not tasks or used + piece.events > limit:
            tasks.append([])
            used = 0
        tasks[-1].append(piece)
        used += piece.events
    return [tuple(task) for task in tasks]


def slices(ranges: Sequence[Range], events_max: int) -> list[list[Range]]:
    """Cut the ranges of a task, in order, into slices of events_max events at most."""
    found: list[list[Range]] = [[]]
    room = events_max
    for each in ranges:
        first = each.first_offset
        while first <= each.last_offset:
            if room == 0:
                found.append([])
                room = events_max
            last = min(each.last_offset, first + room - 1)
            found[-1].append(_part(each, first, last))
            room -= last - first + 1
            first = last + 1
    return [each for each in found if each]


def _even(each: Range, events_max: int) -> list[Range]:
    count = -(-each.events // events_max)
    bounds = [each.first_offset + each.events * n // count for n in range(count + 1)]
    return [_part(each, first, after - 1) for first, after in pairwise(bounds)]


def _part(each: Range, first: int, last: int) -> Range:
    return replace(each, first_offset=first, last_offset=last)
