"""Drive a queue: turns over the partitions of its topics, the preferred and the laggiest first.

A worker, or gapless.testing, calls turn() again and again. Events that others released, and events
that are due again, take turns with open ones. An idle driver looks rarely, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from time import monotonic
from typing import Any, TypeVar

from psycopg import Connection

from gapless.consume.job import Step
from gapless.errors import HoleError
from gapless.features.queue.alone import step_reserved
from gapless.features.queue.once import step_place
from gapless.features.queue.outside import QueueCalls
from gapless.features.queue.place import (
    Queue,
    QueuePlace,
    channel_of,
    find_places,
    is_aside_due,
    sweep,
)
from gapless.features.queue.receipts import Reserved, reserve, reserve_next
from gapless.features.queue.shares import Shares
from gapless.features.queue.take import TakeOutcome

SOON_S = 0.25  # after a notification, a failure, or a block in others' hands: there may be more
LOOK_BUSY_S = 1.0  # while there is work: between two looks at lags and due events
GOES_ON_S = 0.02  # the time in which one turn takes batch after batch
SWEEP_EVERY_CLAIMS = 64
HOLE_RETRY_S = 5.0  # the pause of a partition before a hole; the others are served

T = TypeVar("T")


class QueueDriver:
    """Each `turn()` handles one claim, or one event that was set aside; or begins and ends calls.

    wake: called, on any thread, when a call has ended. Without it a turn waits for the end of a
    call.
    """

    def __init__(
        self,
        queue: Queue,
        *,
        wait_period_s: float = 1.0,
        wake: Callable[[], None] | None = None,
    ) -> None:
        self._queue = queue
        self._wait_period_s = wait_period_s
        self._places: dict[str, dict[int, QueuePlace]] = {topic: {} for topic in queue.topics}
        self._shares = Shares(tuple(queue.topics), queue.terms.weights)
        self._channels: dict[str, QueuePlace] = {}
        self._in_step = False
        self._due: set[str] = set()  # topics in which an event that was set aside is due
        # By topic: the time until which it rests, after a hole.
        self._aside_rests: dict[str, float] = {}
        self._aside_was_last = False
        self._look_at_s = 0.0
        self._due_at_s = inf
        self._calls: QueueCalls | None = None
        if queue.terms.delivery == "at-least-once":
            self._calls = QueueCalls(queue, wake)

    @property
    def places(self) -> Iterator[QueuePlace]:
        """The partitions that it serves, in its order of preference."""
        for topic in self._shares.order():
            yield from self._places[topic].values()

    @property
    def going_on(self) -> bool:
        """Whether calls are running between the turns."""
        return self._calls is not None and self._calls.going_on

    @property
    def oldest_s(self) -> float | None:
        """The start (time.monotonic) of the oldest of these calls; None: there is none."""
        return None if self._calls is None else self._calls.oldest_s

    @property
    def conn(self) -> Connection[Any]:
        """The session of the queue."""
        return self._queue.conn

    @property
    def has_attempt(self) -> bool:
        """Whether events are in hand: the loss of the session may be their fault."""
        return self._in_step or self.going_on

    @property
    def channels(self) -> Collection[str]:
        """The notification channels of its partitions."""
        return self._channels

    def turn(self, *, one: bool = False) -> Step:
        """Do the next piece of work, and commit. Raises as step_place() and QueueCalls.turn() do.

        HoleError concerns one partition: the next turn is for the others.

        one: take one event at a time. "idle": there is no event, or others have all of them in
        hand.
        """
        if monotonic() >= self._look_at_s:
            self._look()
        if self._calls is not None:
            done = self._calls.turn(self._reserve, 1 if one else self._queue.terms.concurrency)
        else:
            self._in_step = True
            done = self._turn(one=one)
            self._in_step = False  # MUST NOT be in a finally: it is asked after a loss
        if done.waiting:
            self._look_at_s = min(self._look_at_s, monotonic() + SOON_S)
        return done

    def forgive(self, conn: Connection[Any]) -> None:
        """Say, from a new session, that the events in hand did not cause the loss of ours."""
        self._queue.holds(0, 0, 0)
        if self._calls is not None:
            self._calls.give_all_back(replace(self._queue, conn=conn))

    def sweep(self) -> None:
        """Move the floor of all partitions over finished events, as far as it goes."""
        for place in self.places:
            sweep(place)

    def rest(self) -> Step:
        """Begin nothing; as long as calls are `going_on`, take another such turn."""
        if self._calls is None:
            return Step(outcome="idle")
        return self._calls.turn(self._reserve, 0, rests=True)

    def wait_s(self, done: Step) -> float:
        """Return the longest sleep in seconds after this last turn; 0: none."""
        if done.outcome != "idle":
            return 0.0
        again_s = min((place.again_s for place in self.places), default=inf)
        wait_s = min(self._look_at_s, self._due_at_s, again_s) - monotonic()
        if self._calls is not None and self._calls.going_on:
            wait_s = min(wait_s, self._calls.wait_s)
        return max(0.0, wait_s)

    def wake(self) -> None:
        """Look at all partitions at the next turn."""
        self._look_at_s = 0.0

    def hear(self, channels: Collection[str], *, grew_only: bool) -> None:
        """Note which partitions grew; any other notification calls for a look at all of them.

        grew_only: no notification says that a partition has due events aside.
        """
        for channel in channels:
            place = self._channels.get(channel)
            if place is None:
                self._look_at_s = 0.0
            elif grew_only:
                if not place.open:
                    place.open, place.hint, place.grew = 1, place.hint or 1, True
            else:
                place.open, place.hint, place.grew = max(place.open, 1), None, False
                self._look_at_s = min(self._look_at_s, monotonic() + SOON_S)

    # -- the turns --------------------------------------------------------------------------------

    def _look(self) -> None:
        """Find the partitions, their open events, and the topics with due events."""
        now = monotonic()
        waits: list[float] = []
        self._due.clear()
        for topic, known in self._places.items():
            self._places[topic] = find_places(self._queue, topic, known)
            for place in self._places[topic].values():
                place.grew = False
                self._channels[channel_of(place)] = place
                if place.claims:
                    place.claims = 0
                    sweep(place)
                if place.unfinished and not place.open:
                    # Their holder may be gone with its machine: look once, from the floor on.
                    place.open, place.hint = 1, None
                    sweep(place)
            is_due, wait_s = is_aside_due(self._queue, topic)
            if is_due and (rest_s := self._aside_rests.get(topic, 0.0) - now) > 0:
                is_due, wait_s = False, rest_s
            if is_due:
                self._due.add(topic)
            elif wait_s is not None:
                waits.append(wait_s)
        self._due_at_s = now + min(waits, default=inf)
        is_busy = bool(self._due) or any(map(self._is_ready, self.places))
        period_s = min(LOOK_BUSY_S, self._wait_period_s) if is_busy else self._wait_period_s
        self._look_at_s = min(now + period_s, max(self._due_at_s, now + 0.001))

    @staticmethod
    def _is_ready(place: QueuePlace) -> bool:
        """Tell whether there are events to take, and no hole before them."""
        now = monotonic()
        return (place.open > 0 or place.again_s <= now) and place.stopped_until_s <= now

    def _turn(self, *, one: bool) -> Step:
        """Handle events in their transaction, or one that was reserved for this."""
        size = 1 if one else self._queue.terms.batch_size
        step = partial(self._step_at, size)
        return self._next(step, self._step_aside) or Step(outcome="idle")

    def _reserve(self, events: int) -> Sequence[Reserved]:
        """Reserve at most `events` events for calls."""
        visibility_s = self._queue.terms.visibility_s
        aside = partial(self._reserve_aside, events, visibility_s)
        return self._next(partial(self._reserve_at, events), aside) or ()

    def _next(
        self, at: Callable[[QueuePlace], T | None], aside: Callable[[], T | None]
    ) -> T | None:
        """Return the first result; due events and open events take turns."""
        if self._due and not self._aside_was_last:
            self._aside_was_last = True
            if found := aside():
                return found
        self._aside_was_last = False
        while place := next((each for each in self.places if self._is_ready(each)), None):
            if found := at(place):
                return found
        return aside() if self._due else None

    def _step_at(self, batch_size: int, place: QueuePlace) -> Step | None:
        until_s = monotonic() + GOES_ON_S

        def step(size: int) -> tuple[Step, int, TakeOutcome]:
            done, outcome = step_place(
                place, batch_size=size, continue_while=lambda: monotonic() < until_s
            )
            return done, done.events, outcome

        done = self._take_at(place, batch_size, step)
        return done if done.outcome == "done" else None

    def _reserve_at(self, events: int, place: QueuePlace) -> Sequence[Reserved]:
        def take(size: int) -> tuple[Sequence[Reserved], int, TakeOutcome]:
            found, outcome = reserve_next(place, size)
            return found, len(found), outcome

        return self._take_at(place, events, take)

    def _take_at(
        self, place: QueuePlace, most: int, take: Callable[[int], tuple[T, int, TakeOutcome]]
    ) -> T:
        """Take events of a partition; if there are none, look from the floor on next time, once."""
        if place.claims >= SWEEP_EVERY_CLAIMS:
            place.claims, place.hint = 0, None
            sweep(place)
        topic, size, place.again_s = place.partition.topic, min(most, place.block), inf
        from_floor = place.hint is None
        try:
            found, events, outcome = take(size)
        except HoleError:
            place.hint, place.stopped_until_s = None, monotonic() + HOLE_RETRY_S
            raise
        if outcome == "moved":
            self._look_at_s = 0.0
        elif outcome == "noted" and monotonic() >= self._aside_rests.get(topic, 0.0):
            self._due.add(topic)
        elif outcome == "held" and place.grew:
            place.again_s = monotonic() + SOON_S
        place.asked(outcome, events, size, from_floor=from_floor)
        self._shares.served(topic, events)
        return found

    def _step_aside(self) -> Step | None:
        """Handle one event that lapsed, was noted, or is due again."""
        for reserved in self._reserve_aside(1, self._queue.reserve_s):
            return step_reserved(reserved.place, reserved)
        return None

    def _reserve_aside(self, events: int, reserve_s: float) -> Sequence[Reserved]:
        """Reserve events that lapsed, were noted, or are due again; the preferred topic first."""
        for topic in self._shares.order():
            if topic not in self._due:
                continue
            places = self._places[topic]
            try:
                found = reserve(self._queue, topic, places, events, reserve_s, "aside")
            except HoleError:
                self._aside_rests[topic] = monotonic() + HOLE_RETRY_S
                self._due.discard(topic)
                raise
            if found:
                return found
            self._due.discard(topic)
        return ()
