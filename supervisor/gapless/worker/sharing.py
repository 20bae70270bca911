"""The division of partitions among workers: a fixed number each, or as crew.py says (auto)."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from itertools import chain
from time import monotonic
from typing import Literal

from gapless.consume.terms import Terms
from gapless.keys import Partition
from gapless.lease.member import Lease
from gapless.telemetry.meter import Meters
from gapless.worker.bells import bell_of
from gapless.worker.board import Board
from gapless.worker.child import Child
from gapless.worker.crew import SLOW_CALL_S, Served, Slowness, shares, surplus, workers_max
from gapless.worker.roster import Roster

log = logging.getLogger("gapless.supervisor")

PARTITIONS_MAX = 4096  # of a topic


class Sharing:
    """Sets the number of partitions of a worker, and moves them when it changes."""

    def __init__(
        self, number: int | Literal["auto"], roster: Roster, shared: tuple[Board, Meters]
    ) -> None:
        self._number = None if number == "auto" else number
        self._roster = roster
        self._board, self._meters = shared
        self._slowness: defaultdict[Served, Slowness] = defaultdict(Slowness)
        self._alone: set[Served] = set()  # with a worker for each of their partitions
        self._workers: dict[Served, int] = {}

    @property
    def is_auto(self) -> bool:
        """Whether the supervisor decides."""
        return self._number is None

    def partitions_max(self, partition: Partition) -> int:
        """Return the number of partitions that a new worker for this one may get in time."""
        if self._number is not None:
            return self._number
        return 1 if (partition.group_id, partition.topic) in self._alone else PARTITIONS_MAX

    def room(self, partition: Partition) -> int:
        """Return the most partitions of a worker that takes this one; 0: it needs a new worker."""
        served = partition.group_id, partition.topic
        staying = sum(worker.stays for worker in self._roster.crew(*served))
        if self.is_auto and staying < self._workers.get(served, 1):
            return 0
        return self.partitions_max(partition)

    def convict(self, child: Child) -> None:
        """Note that a worker was ended because a call took too long."""
        served = (worker.partitions for worker in self._roster.workers if worker.child is child)
        for each in chain.from_iterable(served):
            self._slowness[each.group_id, each.topic].convict(monotonic())

    def channels(self, wanted: Iterable[Lease]) -> set[str]:
        """Return the channels of partitions whose workers, future ones too, do not listen."""
        if not self.is_auto:
            return set()
        places = {*self._roster.running(), *(lease.partition for lease in wanted)}
        return {bell_of(partition) for partition in places}

    def looked(self, began_s: float, lease_nos: Set[int]) -> None:
        """Ring for leases that were found to have work, and spare workers their look."""
        self.ring(lease_nos=lease_nos)
        self._board.look(began_s)

    def ring(self, channels: Set[str] = frozenset(), lease_nos: Set[int] = frozenset()) -> None:
        """Tell workers that there is work."""
        for worker in self._roster.workers:
            worker.ring(channels, lease_nos)

    def fit(self, wanted: Iterable[Lease], terms: Mapping[Served, Terms]) -> None:
        """Move partitions to another worker where that is due; the next start assigns them.

        wanted: the leases that should have a worker here.
        """
        if not self.is_auto:
            return
        places = {lease.partition for lease in wanted}
        counts = Counter((each.group_id, each.topic) for each in places)
        self._judge(counts, terms)
        fast = {served: counts[served] for served in counts if served not in self._alone}
        self._workers = {**counts, **shares(fast, workers_max())}
        for served, workers in self._workers.items():
            crew = self._roster.crew(*served)
            settled = [worker.partitions for worker in crew if worker.stays]
            is_moving = any(worker.is_moving for worker in crew)
            is_leaving = not places.issuperset(chain.from_iterable(settled))  # one is handed over
            if not (is_moving or is_leaving):
                for partition in surplus(settled, workers):
                    self._roster.drop(partition)

    def _judge(self, counts: Iterable[Served], terms: Mapping[Served, Terms]) -> None:
        """Choose the handlers that get a worker for each of their partitions."""
        slow_calls = self._meters.longer("process", SLOW_CALL_S)
        for served in counts:
            crew = self._roster.crew(*served)
            turn_s = max((self._board.work_ms(each.child.slot) / 1000 for each in crew), default=0)
            is_slow = self._slowness[served].note(monotonic(), slow_calls.get(served, {}), turn_s)
            if terms[served].delivery == "at-least-once":
                self._alone.add(served)
            elif is_slow != (served in self._alone):
                self._alone ^= {served}
                how = "is slow: a worker for each of its" if is_slow else "is fast again: it shares"
                log.info("supervisor: %s/%s: its handler %s partitions", *served, how)
