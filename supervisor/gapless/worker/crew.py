"""The number of workers for a group and topic under `partitionsPerWorker: auto` (pure).

Fast handlers share a few workers; a slow one has a worker for each of its partitions, as without
auto, so that no partition waits for a call of another.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from gapless.keys import Partition

Served = tuple[str, str]
"""A group and a topic."""

SLOW_CALL_S = 0.1  # one of the bounds of the histogram of calls (telemetry/meter.py)
SLOW_CALLS = 2  # of one worker within WINDOW_S: a first call is often slow, and a machine may stop
SLOW_TURN_S = 0.5  # a turn under way for longer is enough alone
BATCH_S = 0.1  # target time for a batch whose worker has other partitions too
BATCH_GROWS = 8  # times at most: the first events may be the cheap ones
WINDOW_S = 60.0
CALM_S = 600.0  # time without slowness until a handler shares again; doubled each time
CALM_S_MAX = 86_400.0


def workers_max() -> int:
    """Return the maximum number of workers of fast handlers, unless there are more groups."""
    return getattr(os, "process_cpu_count", os.cpu_count)() or 1


def shares(partitions: Mapping[Served, int], most: int) -> dict[Served, int]:
    """Divide `most` workers: at least one each, more for those with the most partitions."""
    found = dict.fromkeys(partitions, 1)
    for _ in range(most - len(found)):
        crowded = max(found, key=lambda served: partitions[served] / found[served], default=None)
        if crowded is None or found[crowded] >= partitions[crowded]:
            break
        found[crowded] += 1
    return found


def surplus(crew: Sequence[Sequence[Partition]], workers: int) -> list[Partition]:
    """Return the partitions to take from the workers of a crew, so that others serve them.

    The smallest workers lose all until `workers` are left; each of these keeps at most its share.
    """
    by_size = sorted(crew, key=len, reverse=True)
    share = -(-sum(map(len, crew)) // workers)
    taken = [each for one in by_size[:workers] for each in one[share:]]
    return taken + [each for one in by_size[workers:] for each in one]


def batch_size(events: int, handler_s: float, most: int) -> int:
    """Return the size of the next batch, after one of `events` that kept its handler for handler_s.

    The first batch has a single event: it shows whether the handler is slow.
    """
    fits = int(events * BATCH_S / max(handler_s, 1e-9))
    return max(1, min(most, fits, events * BATCH_GROWS))


class Slowness:
    """Whether a handler is slow, by measurements of its workers."""

    def __init__(self) -> None:
        self._slow_until_s = self._window_until_s = 0.0
        self._calm_s = CALM_S
        self._before: dict[int, int] = {}

    def note(self, now_s: float, slow_calls: Mapping[int, int], turn_s: float) -> bool:
        """Tell whether the handler is slow now.

        slow_calls: by worker, the number of calls so far that took longer than SLOW_CALL_S. turn_s:
        the time that the longest turn under way has lasted.
        """
        if now_s >= self._window_until_s:
            self._window_until_s = now_s + WINDOW_S
            self._before = {}
        most = max(
            (calls - self._before.setdefault(who, calls) for who, calls in slow_calls.items()),
            default=0,
        )
        if turn_s > SLOW_TURN_S or most >= SLOW_CALLS:
            self.convict(now_s)
        return now_s < self._slow_until_s

    def convict(self, now_s: float) -> None:
        """Take the handler for slow; for longer each time."""
        if now_s >= self._slow_until_s > 0:
            self._calm_s = min(self._calm_s * 2, CALM_S_MAX)
        self._slow_until_s = now_s + self._calm_s
        self._window_until_s = 0.0
