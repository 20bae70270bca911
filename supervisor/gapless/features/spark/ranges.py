"""Cut a read into even tasks, each of one stretch of the log in all partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

# The number of pieces of a task's part of a range, before the tasks are evened out.
_PIECES = 8
_PIECE_EVENTS_MIN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Neighbouring offsets of a partition, both ends inclusive.

    archive: the folder they are read from, because the log has dropped them; None is the log.
    timeline: the newest one on which they were given, as planned; None: it is not known.
    """

    topic: str
    topic_id: int
    partition_id: int
    first_offset: int
    last_offset: int
    archive: str | None = None
    timeline: int | None = None

    @property
    def events(self) -> int:
        return self.last_offset - self.first_offset + 1

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition_id}@{self.first_offset}..{self.last_offset}"


def plan_tasks(
    ranges: Iterable[Range], *, events_max: int, tasks_min: int
) -> list[tuple[Range, ...]]:
    """Return the ranges that each Spark task reads: even shares of at most events_max events.

    A task gets a part of every range, all from the same relative place: events that were published
    together lie together in the table, and are read in one piece. tasks_min: the minimum of tasks,
    if there are as many events.
    """
    whole = [each for each in ranges if each.events > 0]
    total = sum(each.events for each in whole)
    count = max(-(-total // events_max), min(tasks_min, total))
    if count <= 1:
        return [tuple(whole)] if whole else []
    piece = max(_PIECE_EVENTS_MIN, total // (count * len(whole) * _PIECES))
    shares = [total * (n + 1) // count - total * n // count for n in range(count)]
    return [tuple(_joined(task)) for task in _cut(_abreast(whole, piece), shares)]


def chunks(ranges: Sequence[Range], events_max: int) -> list[tuple[Range, ...]]:
    """Cut the ranges of a task, also abreast, into chunks of at most events_max events."""
    return plan_tasks(ranges, events_max=events_max, tasks_min=1)


def _abreast(ranges: Sequence[Range], events_max: int) -> list[Range]:
    """Cut ranges into pieces, ordered by their relative place; archived ones go first.

    So the offsets of each partition ascend from task to task, and within a task.
    """
    placed = [
        ((each.archive is None, n / len(pieces)), piece)
        for each in ranges
        for pieces in [_even(each, events_max)]
        for n, piece in enumerate(pieces)
    ]
    return [piece for _, piece in sorted(placed, key=lambda one: one[0])]


def _cut(ranges: Iterable[Range], shares: Sequence[int]) -> list[list[Range]]:
    """Cut ranges, in order, into shares of so many events each; the shares add up to all events."""
    found: list[list[Range]] = [[]]
    rest = iter(shares)
    room = next(rest)
    for each in ranges:
        first = each.first_offset
        while first <= each.last_offset:
            if room == 0:
                found.append([])
                room = next(rest)
            last = min(each.last_offset, first + room - 1)
            found[-1].append(_part(each, first, last))
            room -= last - first + 1
            first = last + 1
    return found


def _joined(pieces: Iterable[Range]) -> list[Range]:
    """Join the pieces of each range into one."""
    found: dict[tuple[str | None, int, int], Range] = {}
    for each in pieces:
        key = (each.archive, each.topic_id, each.partition_id)
        first = found.get(key, each).first_offset
        found[key] = _part(each, first, each.last_offset)
    return list(found.values())


def _even(each: Range, events_max: int) -> list[Range]:
    count = -(-each.events // events_max)
    bounds = [each.first_offset + each.events * n // count for n in range(count + 1)]
    return [_part(each, first, after - 1) for first, after in pairwise(bounds)]


def _part(each: Range, first: int, last: int) -> Range:
    return replace(each, first_offset=first, last_offset=last)
