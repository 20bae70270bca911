"""Shared memory in which each child shows its work and its start: no pipe, no lock, no wait.

It is made before the first fork, and every child inherits it. Its words are aligned and 64 bits
long, so a reader never sees half a value. A silent child is stopped or hangs: it has to be killed.
"""

from __future__ import annotations

import mmap
import time

_WORD_BYTES = 8


class Board:
    """Words for each slot: the start of its work, its subject, its offsets and timeline, its count.

    Each team (the workers with the same handler) has one more word: the time of its last unit.
    The supervisor has one: the time its last look for work began.

    A slot's first word is time.monotonic_ns() at the start of the present work, negative at rest.
    Work may take long, such as a batch; a child at rest MUST say again and again that it lives.
    """

    def __init__(self, slots: int) -> None:
        self._since_ns = memoryview(mmap.mmap(-1, slots * _WORD_BYTES)).cast("q")
        self._subjects = memoryview(mmap.mmap(-1, slots * _WORD_BYTES)).cast("q")
        self._completed = memoryview(mmap.mmap(-1, slots * _WORD_BYTES)).cast("q")
        self._first_offsets = memoryview(mmap.mmap(-1, slots * _WORD_BYTES)).cast("q")
        self._last_offsets = memoryview(mmap.mmap(-1, slots * _WORD_BYTES)).cast("q")
        self._timelines = memoryview(mmap.mmap(-1, slots * _WORD_BYTES)).cast("q")
        self._teams = memoryview(mmap.mmap(-1, slots * _WORD_BYTES)).cast("q")
        self._handled_ns = memoryview(mmap.mmap(-1, slots * _WORD_BYTES)).cast("q")
        self._looked_ns = memoryview(mmap.mmap(-1, _WORD_BYTES)).cast("q")

    def clear(self, slot: int, team: int = 0) -> None:
        """Make a slot ready for a new child of a team: at rest, nothing completed."""
        self._completed[slot] = 0
        self._teams[slot] = team % len(self._handled_ns)
        self.acquit(slot)
        self.rest(slot)

    def complete(self, slot: int) -> None:
        """Count one completed item."""
        self._completed[slot] += 1

    def completed(self, slot: int) -> int:
        """Return the number of completed items."""
        return self._completed[slot]

    def handle(self, slot: int) -> None:
        """Note that a unit went through its handler."""
        self.complete(slot)
        self._handled_ns[self._teams[slot]] = time.monotonic_ns()

    def handled_s(self, slot: int) -> float:
        """Return the time (time.monotonic) of its team's last handle(), 0 if there was none."""
        return self._handled_ns[self._teams[slot]] / 1e9

    def look(self, began_s: float) -> None:
        """Note, for the supervisor, that every worker with work at that time was rung."""
        self._looked_ns[0] = int(began_s * 1e9)

    @property
    def looked_s(self) -> float:
        """The time (time.monotonic) of the supervisor's last look; 0: never."""
        return self._looked_ns[0] / 1e9

    def begin(self, slot: int, subject: int = 0, since_s: float | None = None) -> None:
        """Show that work begins, on a subject: a worker gives its lease_no, or calls hold().

        since_s: the time at which the work began (time.monotonic), instead of now.
        """
        self._subjects[slot] = subject  # first: a death in between blames nothing
        self._since_ns[slot] = time.monotonic_ns() if since_s is None else int(since_s * 1e9)

    def hold(self, slot: int, lease_no: int, first_offset: int, last_offset: int) -> None:
        """Show the events of a queue that are in hand, bounds inclusive. lease_no 0: none are."""
        self._subjects[slot] = 0  # a death in between blames nothing
        self._first_offsets[slot] = first_offset
        self._last_offsets[slot] = last_offset
        self._subjects[slot] = lease_no

    def meet(self, slot: int, timeline: int) -> None:
        """Show the timeline of the server to which lease numbers and offsets refer."""
        self._timelines[slot] = timeline

    def held(self, slot: int) -> tuple[int, int, int, int]:
        """Return the values of the last meet() and hold(): timeline, lease_no and offsets."""
        offsets = self._first_offsets[slot], self._last_offsets[slot]
        return self._timelines[slot], self._subjects[slot], *offsets

    def rest(self, slot: int) -> None:
        """Show that the child is at rest, and alive."""
        self._since_ns[slot] = -time.monotonic_ns()

    def acquit(self, slot: int) -> None:
        """Clear the subject: the work on it ended in a way that does not blame it."""
        self._subjects[slot] = 0

    def subject(self, slot: int) -> int:
        """Return a child's subject, also after it or its session has died; 0: none."""
        return self._subjects[slot]

    def work_ms(self, slot: int) -> float:
        """Return the duration of the present work, 0 at rest."""
        return _since_ms(self._since_ns[slot])

    def silence_ms(self, slot: int) -> float:
        """Return the time since a child at rest last said that it lives, 0 when at work."""
        return _since_ms(-self._since_ns[slot])


def _since_ms(then_ns: int) -> float:
    return (time.monotonic_ns() - then_ns) / 1e6 if then_ns > 0 else 0.0
