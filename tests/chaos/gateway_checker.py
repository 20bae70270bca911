"""What must hold of a log behind gateways that were killed: what was asked, answered, read (pure).

Each function returns complaints, one line each; nothing is wrong when there is none.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

Place = tuple[int, int]
"""Partition and offset."""
Moments = tuple[float, float]
"""When it was asked for and when the answer came, in seconds: it was taken between the two."""


def check_accepted(
    asked: Collection[int], accepted: Collection[int], log: Sequence[int]
) -> list[str]:
    """Every event that was answered 202 is in the log once; of the others at most once."""
    times = Counter(log)
    return [
        *(f"event {n} was accepted and is lost" for n in accepted if not times[n]),
        *(f"{n} is in the log {count} times" for n, count in times.items() if count > 1),
        *(f"{n} is in the log and nobody asked" for n in times if n not in asked),
    ]


def check_stream(seen: Sequence[Place], log: Collection[Place]) -> list[str]:
    """A stream had each event once, those of a partition in order, and none that is not there."""
    times = Counter(seen)
    last: dict[int, int] = {}
    found = []
    for partition, offset in seen:
        if offset < last.get(partition, 0):
            found.append(f"{partition}@{offset} came after {partition}@{last[partition]}")
        last[partition] = offset
    return [
        *found,
        *(f"{p}@{o} never came" for p, o in log if not times[p, o]),
        *(f"{p}@{o} came {count} times" for (p, o), count in times.items() if count > 1),
        *(f"{p}@{o} came and is not in the log" for p, o in times if (p, o) not in log),
    ]


def check_jobs(
    log: Collection[Place],
    takes: Mapping[Place, Sequence[Moments]],
    acknowledged: Sequence[Place],
    visibility_s: float,
) -> list[str]:
    """Each event was taken, again only when its time was over, and acknowledged once at most.

    takes: of each event, in the order in which the answers came.
    """
    times = Counter(acknowledged)
    early = [
        f"{p}@{o} was taken again {came_s - asked_s:.1f} s after it was taken"
        for (p, o), moments in takes.items()
        for (asked_s, _), (_, came_s) in pairwise(moments)
        if came_s - asked_s < visibility_s
    ]
    return [
        *early,
        *(f"{p}@{o} was never taken" for p, o in log if not takes.get((p, o))),
        *(f"{p}@{o} was acknowledged {n} times" for (p, o), n in times.items() if n > 1),
    ]
