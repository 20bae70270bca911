"""Drive a queue: turns over the partitions of its topics, the preferred and the laggiest first.

A worker, or gapless.testing, calls turn() again and again. What others let go of, and what is due
again, comes in turn with what is open. An idle driver looks rarely, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from time import monotonic
from typing import Any

from psycopg import Connection

from gapless.consume.job import Step
from gapless.consume.queue.alone import step_reserved
from gapless.consume.queue.once import step_place
from gapless.consume.queue.outside import QueueCalls
from gapless.consume.queue.place import (
    Queue,
    QueuePlace,
    channel_of,
    find_places,
    is_aside_due,
    sweep,
)
from gapless.consume.queue.receipts import reserve
from gapless.consume.queue.shares import Shares
from gapless.errors import HoleError

SOON_S = 0.25  # after a notification: what it told of may be due aside, not open
LOOK_BUSY_S = 1.0  # while there is work: which partition lags, and is anything due?
GOES_ON_S = 0.02  # so long one turn takes batch after batch
SWEEP_EVERY_CLAIMS = 64
HOLE_RETRY_S = 5.0  # so long a partition rests before a hole; the others are served


class QueueDriver:
    """`turn()` handles one claim, or one event that was set aside; or begins and ends calls.

    wake: called, on any thread, when a call has ended. Without it a turn waits for that.
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
        self._due: set[str] = set()  # topics in which something set aside is due
        self._aside_rests: dict[
            str, float
        ] = {}  # by topic: until when, after a hole in one of them
        self._aside_was_last = False
        self._look_at_s = 0.0
        self._due_at_s = float("inf")
        self._calls: QueueCalls | None = None
        if queue.terms.delivery == "at-least-once":
            self._calls = QueueCalls(queue, self._shares, wake)

    @property
    def places(self) -> Iterator[QueuePlace]:
        """The partitions that it serves, in the order in which it prefers them."""
        for topic in self._shares.order():
            yield from self._places[topic].values()

    @property
    def going_on(self) -> bool:
        """Whether calls are under way between the turns."""
        return self._calls is not None and self._calls.going_on

    @property
    def oldest_s(self) -> float | None:
        """When (time.monotonic) the oldest of them began."""
        return None if self._calls is None else self._calls.oldest_s

    @property
    def conn(self) -> Connection[Any]:
        """The session it works on."""
        return self._queue.conn

    @property
    def has_attempt(self) -> bool:
        """Whether events are in hand: the loss of the session may be their fault."""
        return self._in_step or self.going_on

    @property
    def channels(self) -> Collection[str]:
        """What notifies of its partitions."""
        return self._channels

    def turn(self, *, one: bool = False) -> Step:
        """Do what is next, and commit; see step_place() and QueueCalls.turn() for what it raises.

        HoleError concerns one partition: the next turn is for the others.

        one: take one event at a time. "idle": nothing is there, or others have all of it in hand.
        """
        if monotonic() >= self._look_at_s:
            self._look()
        if self._calls is not None:
            return self._calls.turn(self._places, most=1 if one else None)
        self._in_step = True
        done = self._turn(one=one)
        self._in_step = False  # MUST NOT be in a finally: after a loss it is asked
        return done

    def forgive(self, conn: Connection[Any]) -> None:
        """Say, from a new session, that what was in hand is not to blame for the loss of ours."""
        self._queue.holds(0, 0, 0)
        if self._calls is not None:
            self._calls.give_all_back(replace(self._queue, conn=conn))

    def _turn(self, *, one: bool) -> Step:
        if self._due and not self._aside_was_last:
            self._aside_was_last = True
            done = self._turn_of_aside()
            if done.outcome == "done":
                return done
        self._aside_was_last = False
        place = next((each for each in self.places if self._is_ready(each)), None)
        if place is not None:
            done = self._turn_at(place, one=one)
            self._shares.served(place.partition.topic, done.events)
            return done
        return self._turn_of_aside() if self._due else Step(outcome="idle")

    def sweep(self) -> None:
        """Move the floor of all partitions over what is finished, as far as it goes."""
        for place in self.places:
            sweep(place)

    def rest(self) -> Step:
        """Begin nothing; as long as calls are `going_on`, take another such turn."""
        if self._calls is None:
            return Step(outcome="idle")
        return self._calls.turn(self._places, rests=True)

    def wait_s(self, done: Step) -> float:
        """Return how long to sleep at most after this turn, the last one; 0: not at all."""
        if done.outcome != "idle":
            return 0.0
        wait_s = min(self._look_at_s, self._due_at_s) - monotonic()
        if self._calls is not None and self._calls.going_on:
            wait_s = min(wait_s, self._calls.wait_s)
        return max(0.0, wait_s)

    def wake(self) -> None:
        """Look at all partitions at the next turn."""
        self._look_at_s = 0.0

    def hear(self, channels: Collection[str]) -> None:
        """Note which partitions grew; what else is told is a reason to look at all of them."""
        for channel in channels:
            place = self._channels.get(channel)
            if place is None:
                self._look_at_s = 0.0
            else:
                place.open = max(place.open, 1)
                self._look_at_s = min(self._look_at_s, monotonic() + SOON_S)

    # -- the turns --------------------------------------------------------------------------------

    def _look(self) -> None:
        """Find out which partitions there are, how full they are, and what is due."""
        now = monotonic()
        waits: list[float] = []
        self._due.clear()
        for topic, known in self._places.items():
            self._places[topic] = find_places(self._queue, topic, known)
            for place in self._places[topic].values():
                self._channels[channel_of(place)] = place
                if place.claims:
                    place.claims = 0
                    sweep(place)
                if place.unfinished and not place.open:
                    # Whoever had these may be gone with its machine: look once, from the floor on.
                    place.open, place.hint = 1, None
                    sweep(place)
            is_due, wait_s = is_aside_due(self._queue, topic)
            if is_due and (rest_s := self._aside_rests.get(topic, 0.0) - now) > 0:
                is_due, wait_s = False, rest_s
            if is_due:
                self._due.add(topic)
            elif wait_s is not None:
                waits.append(wait_s)
        self._due_at_s = now + min(waits, default=float("inf"))
        is_busy = bool(self._due) or any(map(self._is_ready, self.places))
        period_s = min(LOOK_BUSY_S, self._wait_period_s) if is_busy else self._wait_period_s
        self._look_at_s = min(now + period_s, max(self._due_at_s, now + 0.001))

    @staticmethod
    def _is_ready(place: QueuePlace) -> bool:
        """Tell whether there is something to take, and no hole in front of it."""
        return place.open > 0 and place.stopped_until_s <= monotonic()

    def _turn_at(self, place: QueuePlace, *, one: bool) -> Step:
        """Take events of a partition; when there are none, look once from the floor on."""
        if place.claims >= SWEEP_EVERY_CLAIMS:
            place.claims, place.hint = 0, None
            sweep(place)
        size = 1 if one else min(self._queue.terms.batch_size, place.block)
        from_floor = place.hint is None
        until_s = monotonic() + GOES_ON_S
        try:
            done, outcome = step_place(
                place, batch_size=size, goes_on=lambda: monotonic() < until_s
            )
        except HoleError:
            place.hint, place.stopped_until_s = None, monotonic() + HOLE_RETRY_S
            raise
        if outcome == "moved":
            self._look_at_s = 0.0
        elif outcome == "noted":
            self._due.add(place.partition.topic)
        is_end = outcome != "claimed" or (0 < done.events < size)
        if is_end:
            if from_floor or outcome in ("moved", "busy"):
                place.open = 0
            place.hint = None
        return done if done.outcome == "done" or not place.open else Step(outcome="done")

    def _turn_of_aside(self) -> Step:
        """Handle one event that lapsed, was noted, or is due again; the preferred topic first."""
        for topic in self._shares.order():
            if topic not in self._due:
                continue
            places = self._places[topic]
            try:
                found = reserve(self._queue, topic, places, 1, self._queue.reserve_s, "aside")
            except HoleError:
                self._aside_rests[topic] = monotonic() + HOLE_RETRY_S
                self._due.discard(topic)
                raise
            for reserved in found:
                return step_reserved(reserved.place, reserved)
            self._due.discard(topic)
        return Step(outcome="idle")
