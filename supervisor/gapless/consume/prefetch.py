"""What a driver remembers from one turn to the next: events read ahead, and where its row is.

Reading 100 events costs as much as all else about a batch of 100. So a worker that is behind reads
the next batches at once, and claims them one by one. That is only a hint: each claim compares fence
and offset in the database (I6, I7), events and their offsets never change (I3), and what does not
fit any more is forgotten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from gapless.consume.unit import Spans
from gapless.log.event import Row

EVENTS_MAX = 2000
BYTES_MAX = 4 << 20  # of payloads; guessed from the batch before

NOTHING = Spans(0, (), ())


class Prefetch:
    """Units after the group's offset, with their events, and the place of the group's row.

    events: so many are worth reading at once with the next claim, 0 while the worker keeps up.
    place: where the claim before left the row; a hint that keeps claims flat while an old snapshot
    is held (sql/functions/consume/claim_ahead.sql).
    """

    __slots__ = ("_rows", "_spans", "_taken", "events", "place")

    def __init__(self) -> None:
        self.events = 0
        self.place: str | None = None
        self.forget()

    def forget(self) -> None:
        """Drop what was read ahead."""
        self.keep(NOTHING, [])

    def keep(self, spans: Spans, rows: list[Row]) -> None:
        """Remember neighbouring units with their events, in offset order."""
        self._spans = spans
        self._rows = rows
        self._taken = 0  # units

    @property
    def units(self) -> int:
        """How many can be taken."""
        return len(self._spans.ends) - self._taken

    def take(self, batch_size: int) -> tuple[Spans, list[Row]]:
        """Take the next units, `batch_size` events to the end of a unit, or what is left of them.

        They are not given twice: whoever fails to commit them claims them anew.
        """
        ends, taken = self._spans.ends, self._taken
        start = ends[taken - 1] if taken else 0
        self._taken = min(bisect_left(ends, start + batch_size, lo=taken) + 1, len(ends))
        if taken == self._taken:
            return NOTHING, []
        spans = self._spans[taken : self._taken]
        return spans, self._rows[start : start + len(spans.ids)]

    def gauge(self, rows: Sequence[Row], batch_size: int, most: int) -> None:
        """Say from a batch just read whether to read ahead, and how many events, `most` at most."""
        if len(rows) < batch_size:
            self.events = 0
            return
        payload_bytes = sum(len(row[3] or b"") for row in rows)
        self.events = min(EVENTS_MAX, most, BYTES_MAX * len(rows) // (payload_bytes + 1))
