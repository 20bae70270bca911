"""Signs of a supervisor's loop: that it turns, and as which member; its exporter reads them.

They are in shared memory, so that a supervisor that hangs cannot hide it.
"""

from __future__ import annotations

import mmap
import time
from uuid import UUID

_WORD_BYTES = 8
_HALF_BITS = 64
_OUTSIDE, _MEMBER, _DRAINING = range(3)


class SupervisorBeat:
    """Written by the supervisor at each turn of its loop; made before its exporter is forked."""

    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, 4 * _WORD_BYTES)).cast("Q")

    def beat(self, member_id: UUID | None, *, drains: bool) -> None:
        """Note that a turn was taken. member_id: the member it acts as; None: it is no member."""
        words = self._words
        if member_id is not None:
            words[2], words[3] = member_id.int >> _HALF_BITS, member_id.int & (1 << _HALF_BITS) - 1
        state = _DRAINING if drains else _MEMBER
        words[1] = _OUTSIDE if member_id is None else state
        words[0] = time.monotonic_ns()

    @property
    def silence_s(self) -> float:
        """The time since the last turn; before the first, since the machine started."""
        return (time.monotonic_ns() - self._words[0]) / 1e9

    @property
    def is_draining(self) -> bool:
        """Whether it was told to end."""
        return bool(self._words[1] == _DRAINING)

    @property
    def member_id(self) -> UUID | None:
        """Its member; None while it is no member, or has no session to act through."""
        if self._words[1] == _OUTSIDE:
            return None
        return UUID(int=self._words[2] << _HALF_BITS | self._words[3])
