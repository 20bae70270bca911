"""The order of the faults: seeded, every kind again and again, some at the same time."""

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import chaos.clock
import chaos.faults
import chaos.network
import chaos.operators
import chaos.server
import chaos.strangers  # noqa: F401 - the faults of all six are in FAULTS then
from chaos.arena import FAULTS, Arena

AT_ONCE_MAX = 3
PAUSE_S = (0.2, 1.6)  # between two faults


class Nemesis:
    """Deals faults from a bag that holds each kind once; a new bag when it is empty."""

    def __init__(self, arena: Arena, kinds: list[str] | None = None) -> None:
        self.done: Counter[str] = Counter()
        self._arena = arena
        self._kinds = kinds or sorted(FAULTS)
        self._bag: list[str] = []
        self._numbers = count()
        self._running: list[tuple[float, int, Iterator[float]]] = []  # a heap by when it is due

    def rage(self, seconds: float, look_on: Callable[[], None] = lambda: None) -> None:
        """Do harm for so long, then mend what lasts."""
        until_s = time.monotonic() + seconds
        next_s = time.monotonic()
        while (now := time.monotonic()) < until_s:
            self._go_on(now)
            if now >= next_s and len(self._running) < AT_ONCE_MAX:
                self._strike()
                next_s = time.monotonic() + self._arena.random.uniform(*PAUSE_S)
            look_on()
            time.sleep(0.01)
        self.mend()

    def mend(self) -> None:
        """Bring everything that lasts to its end now."""
        while self._running:
            self._go_on(float("inf"))
        self._arena.replace()

    def _strike(self) -> None:
        if not self._bag:
            self._bag = self._arena.random.sample(self._kinds, k=len(self._kinds))
        kind = self._bag.pop()
        self.done[kind] += 1
        self._advance(FAULTS[kind](self._arena))

    def _go_on(self, now: float) -> None:
        while self._running and self._running[0][0] <= now:
            self._advance(heapq.heappop(self._running)[2])
            if now == float("inf"):
                return

    def _advance(self, deed: Iterator[float]) -> None:
        for lasting_s in deed:
            if lasting_s > 0:
                due_s = time.monotonic() + lasting_s
                heapq.heappush(self._running, (due_s, next(self._numbers), deed))
                return
