"""At least once in a queue: events are reserved, and called outside any transaction (Q1, Q2).

A worker runs up to `concurrency` calls. It renews their reservations while they last, and
acknowledges the calls that have ended in one transaction. If a worker dies, its events can be taken
again when their reservation ends, at the latest after visibility_s. An event at which a worker died
is called alone.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from time import monotonic

from gapless.consume.job import STATES, Step
from gapless.consume.outside.calls import Calls, Ended
from gapless.consume.verdict.failure import Failure, crash_reason
from gapless.consume.verdict.policy import Verdict
from gapless.consume.verdict.wish import Retry
from gapless.errors import HoleError, ReceiptError
from gapless.failpoints import hit
from gapless.features.queue.place import Queue
from gapless.features.queue.receipts import (
    Reserved,
    acknowledge,
    extend,
    fail,
    give_back,
)
from gapless.telemetry import spans

log = logging.getLogger("gapless.worker")

RENEW_AFTER = 0.4  # a part of visibility_s: so a late renewal is still in time


class QueueCalls:
    """The calls of one worker, over all partitions of its queue.

    wake: called, on any thread, when the next turn has something to do. Without it a turn waits.
    """

    def __init__(self, queue: Queue, wake: Callable[[], None] | None) -> None:
        self._queue = queue
        self._waits = wake is None
        self._calls = Calls(queue.handler, queue.terms.concurrency, wake or (lambda: None))
        self._numbers = 0
        self._in_hand: dict[int, Reserved] = {}
        self._suspects: deque[Reserved] = deque()  # to be called when no other call is running
        self._alone: int | None = None  # the number of the suspect that is being called
        self._ended: dict[int, Ended] = {}
        self._trouble: BaseException | None = None
        self._renew_s: dict[str, float] = {}  # by receipt: the time of its next renewal
        self._hole: HoleError | None = None

    @property
    def going_on(self) -> bool:
        """Whether events are in hand: being called, to be called alone, or not acknowledged yet."""
        return bool(self._in_hand or self._suspects)

    @property
    def oldest_s(self) -> float | None:
        """The time (time.monotonic) at which the oldest running call began; None: there is none."""
        return self._calls.oldest_s

    @property
    def wait_s(self) -> float:
        """The longest sleep in seconds before a reservation has to be renewed."""
        if not self._renew_s:
            return self._queue.terms.visibility_s
        return max(0.0, min(self._renew_s.values()) - monotonic())

    def give_all_back(self, queue: Queue) -> None:
        """Make all events in hand open again, on another session; no attempt counts."""
        for each in (*self._in_hand.values(), *self._suspects):
            give_back(queue, each)

    def turn(
        self, reserve: Callable[[int], Sequence[Reserved]], most: int, *, rests: bool = False
    ) -> Step:
        """Note ended calls, renew running ones, and begin others, unless the queue `rests`.

        reserve: returns at most the given number of reserved events. most: the limit of running
        calls. "idle": no call has ended and none can begin. Raises a call's error of the
        environment after all calls have ended; other transient errors at once: then take another
        turn. Raises HoleError of `reserve` when there is nothing else to do.
        """
        self._collect(wait=False)
        aside = self._settle()
        self._renew()
        begun = 0
        if rests:
            self._let_go()
        elif self._trouble is None:
            begun = self._begin_more(reserve, most, aside)
        if not (aside or begun) and self._waits and self._calls:
            self._collect(wait=True)
            aside = self._settle()
        if self._trouble is not None and not self._calls:
            trouble, self._trouble = self._trouble, None
            raise trouble
        if self._hole is not None and not (aside or begun):
            hole, self._hole = self._hole, None
            raise hole
        ended = aside["ended"]
        return Step(
            outcome="done" if ended or begun else "idle",
            events=ended,
            units=ended,
            dead=aside["dead"],
            waiting=aside["waiting"],
            asked=aside["asked"],
            handled=ended - sum(aside[state] for state in STATES),
        )

    # -- ended calls ------------------------------------------------------------------------------

    def _collect(self, *, wait: bool) -> None:
        self._ended.update(self._calls.collect(wait=wait))
        errors = (end for end in self._ended.values() if isinstance(end, BaseException))
        self._trouble = self._trouble or next(errors, None)

    def _settle(self) -> Counter[str]:
        """Write down the ends of calls: those that went well in one transaction."""
        aside: Counter[str] = Counter()
        well = [n for n, end in self._ended.items() if end is None]
        if well:
            hit("queue.called")
            for lost in acknowledge(self._queue, [self._in_hand[n] for n in well]):
                self._tell_lost(lost)
            aside["ended"] += len(well)
            self._forget(well)
        for number, end in list(self._ended.items()):
            reserved = self._in_hand[number]
            if isinstance(end, Failure):
                self._fail(reserved, end, aside)
                aside["ended"] += 1
            else:
                give_back(self._queue, reserved)
            self._forget([number])
        return aside

    def _fail(self, reserved: Reserved, failure: Failure, aside: Counter[str]) -> None:
        """Do as the policy says with an event of which the call failed."""
        assert isinstance(failure.error, BaseException)
        job, offset, failed = reserved.place.job, reserved.unit.first_offset, reserved.attempts + 1
        verdict = job.judge(failure.error, failed, offset, redriven=reserved.was_dead)
        spans.verdict(failure.error, verdict.state, failed)
        try:
            if verdict.state == "skip":
                if acknowledge(self._queue, [reserved]):
                    self._tell_lost(reserved)
                return
            fail(self._queue, reserved, failure, verdict)
        except ReceiptError:
            self._tell_lost(reserved)
            return
        aside[verdict.state] += 1
        aside["asked"] += isinstance(failure.error, Retry)

    def _forget(self, numbers: list[int]) -> None:
        for number in numbers:
            del self._ended[number]
            self._in_hand.pop(number)
            if number == self._alone:
                self._alone = None
        held = {each.receipt for each in (*self._in_hand.values(), *self._suspects)}
        self._renew_s = {key: when for key, when in self._renew_s.items() if key in held}

    def _tell_lost(self, reserved: Reserved) -> None:
        log.warning(
            "%s@%s: its call ended after the reservation had: it may be handled twice; "
            "is visibility_s long enough, and the machine not overloaded?",
            reserved.place.partition,
            reserved.unit.first_offset,
        )

    # -- running calls ----------------------------------------------------------------------------

    def _renew(self) -> None:
        now, visibility_s = monotonic(), self._queue.terms.visibility_s
        for receipt, when in list(self._renew_s.items()):
            if now < when:
                continue
            if extend(self._queue, receipt, visibility_s):
                self._renew_s[receipt] = now + RENEW_AFTER * visibility_s
            else:
                del self._renew_s[receipt]
                self._suspects = deque(s for s in self._suspects if s.receipt != receipt)

    def _let_go(self) -> None:
        """Give back the events that are not being called."""
        while self._suspects:
            give_back(self._queue, self._suspects.popleft())

    # -- new calls --------------------------------------------------------------------------------

    def _begin_more(
        self, reserve: Callable[[int], Sequence[Reserved]], most: int, aside: Counter[str]
    ) -> int:
        """Reserve as many events as there is room for, and begin their calls."""
        begun, free = 0, most - len(self._in_hand)
        if free > 0 and not self._suspects and self._alone is None:
            try:
                begun = self._begin(reserve, free, aside)
            except HoleError as error:
                self._hole = error
        if self._suspects and not self._in_hand:
            suspect = self._suspects.popleft()
            self._alone = self._call(suspect)
            begun += 1
        return begun

    def _begin(
        self, reserve: Callable[[int], Sequence[Reserved]], free: int, aside: Counter[str]
    ) -> int:
        terms, begun = self._queue.terms, 0
        reserved_s = monotonic()
        for each in reserve(free):
            self._renew_s[each.receipt] = reserved_s + RENEW_AFTER * terms.visibility_s
            if each.is_poison(terms.policy.crashes_max):
                self._give_up(each, aside)
            elif each.deaths:
                self._suspects.append(each)
            else:
                self._call(each)
                begun += 1
        return begun

    def _call(self, reserved: Reserved) -> int:
        self._numbers += 1
        self._calls.begin(reserved.unit, self._queue.conn, self._numbers)
        self._in_hand[self._numbers] = reserved
        return self._numbers

    def _give_up(self, reserved: Reserved, aside: Counter[str]) -> None:
        """Make an event a dead letter, without a call: too many workers have died at it."""
        reason = crash_reason(reserved.deaths, "")
        try:
            fail(self._queue, reserved, Failure(error=reason, attempts=0), Verdict(state="dead"))
        except ReceiptError:
            return
        aside["dead"] += 1
        aside["ended"] += 1
