"""The units that an at-least-once handler may be called with, read ahead of the group's offset."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from time import monotonic
from typing import Literal

import psycopg

from gapless.consume.aside.parking import Parking
from gapless.consume.job import Job
from gapless.consume.outside.window import Window
from gapless.consume.read.claim import Claim, Wanted
from gapless.consume.session import run, transaction
from gapless.consume.unit import Span
from gapless.errors import HoleError

AHEAD_EVENTS = 10_000  # units finished ahead are recorded, and held in memory
LOOK_S = 0.5  # period of looks at the log while calls are under way: is the group paused?
LOOK_AT_END_S = 0.02  # the same when the log had no more


class Lookahead:
    """A window over the log, with the units that may have killed a worker, and the held keys."""

    def __init__(self) -> None:
        self.window = Window()
        self.sieve: Parking
        self.suspects: dict[int, int] = {}  # by first offset: calls that began and never ended
        self._finished: set[int] | None = None  # by the former owner of the partition
        self._outcome: Literal["claimed", "idle", "fenced"] = "idle"
        self._looked_s = self._look_at_s = 0.0
        self._is_late = False

    @property
    def wait_s(self) -> float:
        """The longest time to sleep before the next look."""
        return max(0.0, self._look_at_s - monotonic()) if self._is_late else LOOK_S

    def look(self, job: Job) -> Literal["claimed", "idle", "fenced"]:
        """Read more of the log when few units are left; return the outcome of the last claim.

        While units are in the window, "idle" means that the group is paused.
        """
        now, window, terms = monotonic(), self.window, job.terms
        few = window.open < terms.concurrency + terms.batch_size // 2
        wanted = window.events < AHEAD_EVENTS and (few or window.first_ready is None)
        self._is_late = wanted and window.events > 0 and now < self._look_at_s
        if (wanted and not self._is_late) or now >= self._looked_s + LOOK_S:
            self._looked_s = now
            peek = _peek(job, min(window.events + terms.batch_size, AHEAD_EVENTS))
            self._outcome = peek.outcome
            more = peek.spans.beyond(window.end)
            self._look_at_s = 0.0 if more else now + LOOK_AT_END_S
            if more:
                self._extend(job, more)
        return self._outcome

    def choose(self, job: Job, in_hand: Collection[int]) -> list[Span]:
        """Take as many units in hand as allowed; one that may have killed a worker, alone."""
        chosen: list[Span] = []
        if not self.suspects.keys().isdisjoint(in_hand):
            return chosen
        while len(in_hand) + len(chosen) < job.terms.concurrency:
            is_suspect = self.window.first_ready in self.suspects
            if is_suspect and (in_hand or chosen):
                break
            span = self.window.take()
            if span is None:
                break
            chosen.append(span)
            if is_suspect:
                break
        return chosen

    def _extend(self, job: Job, more: Sequence[Span]) -> None:
        place = job.assignment.partition.params
        with transaction(job.conn):
            if self._finished is None:
                known = run(job.conn, "deliveries", place)
                self._finished = {first for first, _, is_finished in known if is_finished}
                self.suspects.update(
                    (first, n) for first, n, is_finished in known if n and not is_finished
                )
            # Also for units that were read before: keys that were held then may have been released.
            called = [span for span in more if not span.is_passed]
            self.sieve = Parking.load(job, [*self.window.unfinished(), *called])
        self._finished |= {span.first_offset for span in more if span.is_passed}
        self.window.extend(more, self.sieve.keys, self._finished)
        self._finished.difference_update(span.first_offset for span in more)


def _peek(job: Job, events: int) -> Claim:
    """Return the claim that would be next, but do not move the offset; before a hole, up to it."""
    try:
        return _peek_whole(job, events)
    except HoleError as error:
        if not error.whole:
            raise
        whole = error.whole
    return _peek_whole(job, whole)


def _peek_whole(job: Job, events: int) -> Claim:
    with suppress(psycopg.Rollback), transaction(job.conn):
        peek = job.backlog.ask(job.conn, job.assignment, Wanted(events))
        if peek.outcome == "claimed":
            raise psycopg.Rollback
    return peek
