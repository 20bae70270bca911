"""What is new in a topic, read once for all streams that follow it with the same filter.

A feed keeps the newest events in memory, up to a bound. A stream takes from it what it has not sent
yet, when its client can take it; one that is further behind reads the log itself. So nothing is
kept for a stream, however slow its client is.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection

from gapless.errors import ConnectError, GaplessError
from gapless.gateway.problem import Problem
from gapless.gateway.sessions import Sessions
from gapless.gateway.trouble import Trouble
from gapless.log.filters import Filter
from gapless.log.ranges import Bounds, RangeSlice, bounds_of, read_range
from gapless.ops.entries import entry_json

KEPT_BYTES_MAX = 4 * 1024 * 1024  # a feed
READ_BYTES_MAX = 1024 * 1024  # at a time
POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """An event as it is sent."""

    offset: int
    text: str


class Part:
    """The newest events of a partition: those from first_offset to next_offset - 1."""

    def __init__(self, next_offset: int) -> None:
        self.first_offset = next_offset
        self.next_offset = next_offset
        self.lines: deque[Line] = deque()

    def after(self, offset: int) -> list[Line]:
        """Return what is kept from an offset on."""
        begin = bisect_left(self.lines, offset, key=lambda line: line.offset)
        return [self.lines[n] for n in range(begin, len(self.lines))]


class Feed:
    """Reads while there are streams; `parts` by partition."""

    def __init__(self, sessions: Sessions, topic: str, only: Filter) -> None:
        self.topic = topic
        self.only = only
        self.streams = 0
        self.parts: dict[int, Part] = {}
        self.first_offsets: dict[int, int] = {}
        self.trouble = Trouble(f"streams of topic {topic} stand still")
        self._sessions = sessions
        self._size_bytes = 0
        self._news = asyncio.Event()
        self._rung = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, bounds: dict[int, Bounds]) -> None:
        """Read from these ends on, from now on."""
        self._note(bounds, is_first=True)
        self._task = asyncio.create_task(self._run())

    def ring(self) -> None:
        """Look at once."""
        self._rung.set()

    def end(self) -> None:
        """Read no more."""
        if self._task is not None:
            self._task.cancel()

    def news(self) -> asyncio.Event:
        """Return what is set when there is more than now."""
        return self._news

    async def older(self, partition: int, offset: int) -> RangeSlice:
        """Read from the log what is not kept any more."""
        stop = self.parts[partition].next_offset
        return await self._sessions.run(
            lambda conn: read_range(
                conn,
                self.topic,
                partition,
                range(offset, stop),
                bytes_max=READ_BYTES_MAX,
                only=self.only,
            )
        )

    async def _run(self) -> None:
        while True:
            try:
                await self._turn()
            except (psycopg.Error, ConnectError, GaplessError, Problem) as error:
                self.trouble.note(error)
            else:
                self.trouble.end()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._rung.wait(), POLL_S)
            self._rung.clear()

    async def _turn(self) -> None:
        """Read what is new."""
        ends = {number: part.next_offset for number, part in self.parts.items()}

        def read(conn: Connection[Any]) -> tuple[dict[int, Bounds], dict[int, RangeSlice]]:
            bounds = bounds_of(conn, self.topic)
            return (
                bounds,
                {
                    number: read_range(
                        conn,
                        self.topic,
                        number,
                        range(max(ends.get(number, 1), here.first_offset), here.next_offset),
                        bytes_max=READ_BYTES_MAX,
                        only=self.only,
                    )
                    for number, here in bounds.items()
                    if here.next_offset > ends.get(number, 1)
                },
            )

        bounds, found = await self._sessions.run(read)
        self._note(bounds)
        for number, each in found.items():
            self._add(self.parts[number], each)
        if found:
            self._drop()
            news, self._news = self._news, asyncio.Event()
            news.set()
            if any(each.next_offset < bounds[n].next_offset for n, each in found.items()):
                self._rung.set()

    def _note(self, bounds: dict[int, Bounds], *, is_first: bool = False) -> None:
        for number, here in bounds.items():
            self.first_offsets[number] = here.first_offset
            if number not in self.parts:
                self.parts[number] = Part(here.next_offset if is_first else 1)

    def _add(self, part: Part, found: RangeSlice) -> None:
        for entry in found.entries:
            line = Line(entry.offset, entry_json(self.topic, entry))
            part.lines.append(line)
            self._size_bytes += len(line.text)
        part.next_offset = found.next_offset

    def _drop(self) -> None:
        """Keep no more than may be kept: of the longest part the oldest half."""
        while self._size_bytes > KEPT_BYTES_MAX:
            part = max(self.parts.values(), key=lambda each: len(each.lines))
            for _ in range((len(part.lines) + 1) // 2):
                line = part.lines.popleft()
                self._size_bytes -= len(line.text)
                part.first_offset = line.offset + 1


class Feeds:
    """The feeds of a gateway; a feed lives as long as somebody follows it."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._feeds: dict[tuple[str, Filter], Feed] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._feeds)

    async def join(self, topic: str, only: Filter) -> Feed:
        """Return the feed, with one stream more. Raises RefusedError for no such topic."""
        bounds = await self._sessions.run(lambda conn: bounds_of(conn, topic))
        feed = self._feeds.get((topic, only))
        if feed is None:
            feed = self._feeds[topic, only] = Feed(self._sessions, topic, only)
            feed.begin(bounds)
        feed.streams += 1
        return feed

    def leave(self, feed: Feed) -> None:
        """Have one stream less."""
        feed.streams -= 1
        if not feed.streams:
            feed.end()
            self._feeds.pop((feed.topic, feed.only), None)

    def ring(self, topic: str | None = None) -> None:
        """Have the feeds of a topic look; None: all."""
        for feed in self._feeds.values():
            if topic in (None, feed.topic):
                feed.ring()
