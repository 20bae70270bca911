"""Shared memory in which each child says what it is at, and since when: no pipe, no lock, no wait.

Made before the first fork, inherited by every child. Aligned 64-bit words, so a reader never sees
half a value. A child that says nothing any more is stopped or hangs: it is to be killed.
"""

from __future__ import annotations

import mmap
import time

_WORD_BYTES = 8


class Board:
    """Words for each slot: since when, at what, which offsets of which timeline, how often done.

    And a word for each team, those that run the same handler: when one of them handled something.
    And one of the supervisor: when its last look began at what workers have to do.

    The first is time.monotonic_ns() at which the present work began, negative when at rest.
    Work is what may take long, such as a batch; whoever rests MUST say so again and again.
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
        """Say: something was completed."""
        self._completed[slot] += 1

    def completed(self, slot: int) -> int:
        """Return how often something was completed."""
        return self._completed[slot]

    def handle(self, slot: int) -> None:
        """Say: a unit went through its handler."""
        self.complete(slot)
        self._handled_ns[self._teams[slot]] = time.monotonic_ns()

    def handled_s(self, slot: int) -> float:
        """Return when (time.monotonic) somebody of its team last said so, 0 if nobody has."""
        return self._handled_ns[self._teams[slot]] / 1e9

    def look(self, began_s: float) -> None:
        """Say, for the supervisor, that whoever had something to do then was rung."""
        self._looked_ns[0] = int(began_s * 1e9)

    @property
    def looked_s(self) -> float:
        """When (time.monotonic) the supervisor looked last; 0: never."""
        return self._looked_ns[0] / 1e9

    def begin(self, slot: int, subject: int = 0, since_s: float | None = None) -> None:
        """Say: at work from now on, at a certain thing: a worker names its lease_no, or holds().

        since_s: from then on (time.monotonic), instead of now.
        """
        self._subjects[slot] = subject  # first: a death in between is nobody's fault
        self._since_ns[slot] = time.monotonic_ns() if since_s is None else int(since_s * 1e9)

    def hold(self, slot: int, lease_no: int, first_offset: int, last_offset: int) -> None:
        """Say: these events are in hand, of a queue; both are inclusive. lease_no 0: none are."""
        self._subjects[slot] = 0  # a death in between is nobody's fault
        self._first_offsets[slot] = first_offset
        self._last_offsets[slot] = last_offset
        self._subjects[slot] = lease_no

    def meet(self, slot: int, timeline: int) -> None:
        """Say: the server that lease numbers and offsets are of is on this timeline."""
        self._timelines[slot] = timeline

    def held(self, slot: int) -> tuple[int, int, int, int]:
        """Return what was said last: timeline, lease_no and offsets."""
        offsets = self._first_offsets[slot], self._last_offsets[slot]
        return self._timelines[slot], self._subjects[slot], *offsets

    def rest(self, slot: int) -> None:
        """Say: at rest, and alive."""
        self._since_ns[slot] = -time.monotonic_ns()

    def acquit(self, slot: int) -> None:
        """Say: the thing at hand came to an end that tells nothing against it."""
        self._subjects[slot] = 0

    def subject(self, slot: int) -> int:
        """Return what a child is at, or was when it or its session died; 0 is nothing."""
        return self._subjects[slot]

    def work_ms(self, slot: int) -> float:
        """Return for how long the present work has gone on, 0 when at rest."""
        return _since_ms(self._since_ns[slot])

    def silence_ms(self, slot: int) -> float:
        """Return how long ago a child at rest was last heard of, 0 when at work."""
        return _since_ms(-self._since_ns[slot])


def _since_ms(then_ns: int) -> float:
    return (time.monotonic_ns() - then_ns) / 1e6 if then_ns > 0 else 0.0
