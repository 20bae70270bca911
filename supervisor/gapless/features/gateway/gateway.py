"""The state that all routes of a gateway share: sessions, limits, and whether it drains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from gapless.features.gateway.access import Access
from gapless.features.gateway.body import BodyBudget
from gapless.features.gateway.examination import Examination
from gapless.features.gateway.feed import Feeds
from gapless.features.gateway.listener import ChannelListener
from gapless.features.gateway.sessions import Sessions
from gapless.features.gateway.shared_look import SharedLooks
from gapless.features.gateway.slices import Slices
from gapless.features.gateway.stand_in import StandIn
from gapless.features.gateway.together import Together
from gapless.features.gateway.traffic import Traffic
from gapless.features.metrics.looks import Looks
from gapless.log.ranges import Bounds
from gapless.settings import Loaded, load

Load = Callable[..., Loaded]
DEFAULTS: Load = partial(load, None, environ={})
"""Loads no file; overrides: settings of a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of an event, of the body of a request, and of the number of events in it."""

    event_bytes_max: int
    batch_bytes_max: int
    batch_events_max: int


class Gateway:
    """One gateway. After drain(), requests that wait or stream end.

    load: loads the configuration, with the settings of a request as `overrides`.
    """

    def __init__(
        self,
        sessions: Sessions,
        access: Access,
        looks: Looks,
        limits: Limits,
        traffic: Traffic,
        load: Load = DEFAULTS,
    ) -> None:
        self.load = load
        self.sessions = sessions
        self.shared_looks = SharedLooks(sessions)
        self.together = Together(sessions)
        self.access = access
        self.looks = looks
        self.feeds = Feeds(sessions)
        self.bell: ChannelListener | None = None
        self.stand_in = StandIn(sessions, self._ring_all)
        self._topics: dict[str, str] = {}  # by their notification channel
        self.limits = limits
        self.slices = Slices()
        self.budget = BodyBudget(limits.batch_bytes_max)
        self.traffic = traffic
        self.examination = Examination()
        self.streams = 0  # open ones
        self._news: dict[str, asyncio.Event] = {}
        self._draining = asyncio.Event()

    @property
    def is_draining(self) -> bool:
        return self._draining.is_set()

    def drain(self) -> None:
        """End all waits. Call it in the loop."""
        self._draining.set()

    def listen_to(self, topic: str, bounds: Mapping[int, Bounds]) -> None:
        """Have the feeds of a topic look when one of its partitions grows."""
        channels = {f"gapless_p_{here.topic_id}_{number}": topic for number, here in bounds.items()}
        self._topics |= channels
        if self.bell is not None:
            self.bell.listen_to(set(channels))

    def ring(self, channel: str) -> None:
        """Have the feeds of a channel's topic look."""
        topic = self._topics.get(channel)
        if topic is not None:
            self.feeds.ring(topic)
            self._news.pop(topic, asyncio.Event()).set()

    def _ring_all(self) -> None:
        self.feeds.ring()
        for topic in list(self._news):
            self._news.pop(topic).set()

    def news_of(self, topic: str) -> asyncio.Event:
        """Return an event that is set when a topic that is listened to grows next."""
        return self._news.setdefault(topic, asyncio.Event())

    async def either(self, happened: asyncio.Event, seconds: float, *more: asyncio.Event) -> bool:
        """Wait until an event is set, or the gateway drains; False when the time is over before."""
        waits = [asyncio.ensure_future(each.wait()) for each in (happened, self._draining, *more)]
        try:
            done, _ = await asyncio.wait(
                waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in waits:
                each.cancel()
        return bool(done)

    async def pause(self, seconds: float) -> None:
        """Sleep, at most until the gateway drains."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._draining.wait(), seconds)
