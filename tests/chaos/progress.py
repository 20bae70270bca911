"""Slow or stuck? What came nearer to its end since the last look, and the CPU that was to be had.

On a busy machine a run takes longer, and that tells nothing about gapless. So a wait ends in one of
three ways: it is done; it is stuck, when nothing came nearer although a process had so much CPU; or it
is slow, when it takes too long although it comes nearer, or nobody had any CPU. CPU is measured by
one who tries to have some, so it counts alike whoever keeps the machine busy, and what a container may
use counts, too.
"""

from __future__ import annotations

import hashlib
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Ended = Literal["done", "stuck", "slow"]
Mark = Sequence[int]  # each of these grows as the end comes nearer

EVERY_S = 0.5
PROBE_S = 0.01  # of CPU
PROBE_S_MAX = 2.0
LOOK_S = 0.05
_BLOCK = bytes(1 << 18)  # hashlib lets other threads run meanwhile


class Meter:
    """How much CPU one more process would have had: a thread that tries, every EVERY_S."""

    def __init__(self, began_s: float | None = None) -> None:
        self._ended = threading.Event()
        self._times = [time.monotonic() if began_s is None else began_s]
        self._had = [0.0]  # until that time, seconds of CPU
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)

    def __enter__(self) -> Meter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def had_s(self, since_s: float, until_s: float) -> float:
        """Return the seconds of CPU between two times of the monotonic clock; none before it began."""
        return self._until(until_s) - self._until(since_s)

    def note(self, at_s: float, share: float) -> None:
        """Write down that since the last note such a share of a core was to be had."""
        self._had.append(self._had[-1] + share * (at_s - self._times[-1]))
        self._times.append(at_s)  # last: the other thread reads

    def _until(self, at_s: float) -> float:
        n = bisect_right(self._times, at_s) - 1
        if n < 0:
            return 0.0
        if n + 1 == len(self._times):  # not measured yet: as it was last
            share = self._had[n] - self._had[n - 1] if n else 0.0
            share /= self._times[n] - self._times[n - 1] if n else 1.0
            return self._had[n] + share * (at_s - self._times[n])
        part = (at_s - self._times[n]) / (self._times[n + 1] - self._times[n])
        return self._had[n] + part * (self._had[n + 1] - self._had[n])

    def _run(self) -> None:
        while not self._ended.wait(EVERY_S):
            share = probe()
            self.note(time.monotonic(), share)


def probe() -> float:
    """Try to use a core; return the share of it that was to be had, 0 to 1."""
    began_s, used_s = time.monotonic(), time.thread_time()
    while True:
        hashlib.sha256(_BLOCK).digest()
        had_s, took_s = time.thread_time() - used_s, time.monotonic() - began_s
        if had_s >= PROBE_S or took_s >= PROBE_S_MAX:
            return min(1.0, had_s / took_s)


@dataclass
class Watch:
    """Judges looks at something that is to end. Pure: it has no clock.

    still_s: of CPU, without anything nearer: stuck. bound_s: by the clock, in all: slow.
    """

    still_s: float
    bound_s: float
    _began_s: float | None = None
    _best: list[int] = field(default_factory=list)
    _moved_had_s: float = 0.0  # the CPU that had been there when something came nearer

    def look(self, at_s: float, had_s: float, *, done: bool, mark: Mark) -> Ended | None:
        """Return how it ended, or None while it goes on.

        at_s: now. had_s: the CPU that was to be had, since whenever. mark: what came nearer.
        """
        if self._began_s is None:
            self._began_s, self._best, self._moved_had_s = at_s, list(mark), had_s
        if any(now > best for now, best in zip(mark, self._best, strict=True)):
            self._best = [max(both) for both in zip(mark, self._best, strict=True)]
            self._moved_had_s = had_s
        if done:
            return "done"
        if had_s - self._moved_had_s >= self.still_s:
            return "stuck"
        return "slow" if at_s - self._began_s >= self.bound_s else None


def await_end(
    meter: Meter, watch: Watch, look: Callable[[], tuple[bool, Mark]], pause_s: float = LOOK_S
) -> Ended:
    """Look until it is done, stuck, or has taken too long. look: whether it is done, and its mark."""
    began_s = time.monotonic()
    while True:
        done, mark = look()
        now_s = time.monotonic()
        ended = watch.look(now_s, meter.had_s(began_s, now_s), done=done, mark=mark)
        if ended is not None:
            return ended
        time.sleep(pause_s)
