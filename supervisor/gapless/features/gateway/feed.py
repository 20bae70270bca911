"""News of a topic: one look for all its followers, one read for all with the same filter.

A feed keeps the newest events in memory; the feeds of a topic share a bound. A stream takes the
events that it has not sent yet when its client can take them; a stream that is further behind reads
the log itself. So nothing is kept for a stream, however slow its client is.
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
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.sessions import Sessions
from gapless.features.gateway.trouble import RepeatedFailure
from gapless.log.filter import Filter
from gapless.log.ranges import Bounds, RangeSlice, bounds_of, read_range, timeline_of
from gapless.ops.entries import entry_json

KEPT_BYTES_MAX = 4 * 1024 * 1024  # for all feeds of a topic
READ_BYTES_MAX = 1024 * 1024  # of one read
POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """An event in the form in which it is sent."""

    offset: int
    text: str


class Part:
    """The newest events of a partition: those from first_offset to next_offset - 1."""

    def __init__(self, next_offset: int) -> None:
        self.first_offset = next_offset
        self.next_offset = next_offset
        self.lines: deque[Line] = deque()

    def after(self, offset: int) -> list[Line]:
        """Return the lines that are kept, from an offset on."""
        begin = bisect_left(self.lines, offset, key=lambda line: line.offset)
        return [self.lines[n] for n in range(begin, len(self.lines))]


class Feed:
    """Events that fit a filter; `parts` by partition. A slow filter delays no other.

    A feed reads the log of one timeline. When the timeline changes, the feed ends, and so do its
    streams: their offsets are checked anew when their clients come back.
    """

    def __init__(
        self, sessions: Sessions, topic: str, only: Filter, bounds: dict[int, Bounds]
    ) -> None:
        """Begin to read, from these ends on."""
        self.topic = topic
        self.only = only
        self.timeline = timeline_of(bounds)
        self.is_over = False
        self.streams = 0
        self.parts = {number: Part(here.next_offset) for number, here in bounds.items()}
        self.first_offsets: dict[int, int] = {}
        self.trouble = RepeatedFailure(f"streams of topic {topic} stand still")
        self._sessions = sessions
        self._size_bytes = 0
        self._kept_bytes_max = KEPT_BYTES_MAX
        self._news = asyncio.Event()
        self._is_behind = asyncio.Event()
        self._bounds = bounds
        self.look(bounds, KEPT_BYTES_MAX)
        self._task = asyncio.create_task(self._run())

    def look(self, bounds: dict[int, Bounds], kept_bytes_max: int) -> None:
        """Read up to these ends, soon; keep at most kept_bytes_max."""
        self._bounds, self._kept_bytes_max = bounds, kept_bytes_max
        for number, here in bounds.items():
            self.first_offsets[number] = here.first_offset
            if number not in self.parts:  # a new partition, so all its events are new
                self.parts[number] = Part(1)
        if self._unread():
            self._is_behind.set()

    def end(self) -> None:
        """Stop reading; the streams that are left end."""
        self._task.cancel()
        self.is_over = True
        self._news.set()

    def news(self) -> asyncio.Event:
        """Return an asyncio.Event that is set at the next news."""
        return self._news

    async def older(self, partition: int, offset: int) -> RangeSlice:
        """Read from the log the events that are no longer kept."""
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
            await self._is_behind.wait()
            self._is_behind.clear()
            try:
                await self._read(self._unread())
            except (psycopg.Error, ConnectError, GaplessError, Problem) as error:
                self.trouble.note(error)  # try again at the next look
                continue
            self.trouble.end()
            if self._unread():
                self._is_behind.set()

    def _unread(self) -> dict[int, range]:
        """Return the offsets that are not read yet, by partition."""
        return {
            number: range(max(self.parts[number].next_offset, here.first_offset), here.next_offset)
            for number, here in self._bounds.items()
            if here.next_offset > self.parts[number].next_offset
        }

    async def _read(self, unread: dict[int, range]) -> None:
        def read(conn: Connection[Any]) -> dict[int, RangeSlice]:
            return {
                number: read_range(
                    conn, self.topic, number, offsets, bytes_max=READ_BYTES_MAX, only=self.only
                )
                for number, offsets in unread.items()
            }

        for number, each in (await self._sessions.run(read)).items():
            self._add(self.parts[number], each)
        self._drop()
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _add(self, part: Part, found: RangeSlice) -> None:
        for entry in found.entries:
            line = Line(entry.offset, entry_json(self.topic, entry))
            part.lines.append(line)
            self._size_bytes += len(line.text)
        part.next_offset = found.next_offset

    def _drop(self) -> None:
        """Drop events until the bound holds: the oldest half of the longest part at a time."""
        while self._size_bytes > self._kept_bytes_max:
            part = max(self.parts.values(), key=lambda each: len(each.lines))
            for _ in range((len(part.lines) + 1) // 2):
                line = part.lines.popleft()
                self._size_bytes -= len(line.text)
                part.first_offset = line.offset + 1


class TopicFeeds:
    """The feeds of a topic, by filter: one task looks at the topic's ends for all of them."""

    def __init__(self, sessions: Sessions, topic: str) -> None:
        """Begin to look."""
        self.by_filter: dict[Filter, Feed] = {}
        self._sessions = sessions
        self._topic = topic
        self._trouble = RepeatedFailure(f"streams of topic {topic} stand still")
        self._rung = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def ring(self) -> None:
        """Look at once."""
        self._rung.set()

    def end(self) -> None:
        """Stop looking."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self._turn()
            except (psycopg.Error, ConnectError, GaplessError, Problem) as error:
                self._trouble.note(error)
            else:
                self._trouble.end()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._rung.wait(), POLL_S)
            self._rung.clear()

    async def _turn(self) -> None:
        """Have the feeds read the new events."""
        bounds = await self._sessions.run(lambda conn: bounds_of(conn, self._topic))
        for only, feed in list(self.by_filter.items()):
            if feed.timeline == timeline_of(bounds):
                feed.look(bounds, KEPT_BYTES_MAX // len(self.by_filter))
            else:
                self.by_filter.pop(only).end()


class Feeds:
    """The feeds of a gateway; a feed lives as long as a stream follows it."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._topics: dict[str, TopicFeeds] = {}

    def __len__(self) -> int:
        """Return the number of feeds."""
        return sum(len(each.by_filter) for each in self._topics.values())

    async def join(self, topic: str, only: Filter) -> Feed:
        """Return the feed, with one more stream. Raises RefusedError if there is no such topic."""
        bounds = await self._sessions.run(lambda conn: bounds_of(conn, topic))
        if topic not in self._topics:
            self._topics[topic] = TopicFeeds(self._sessions, topic)
        feeds = self._topics[topic].by_filter
        feed = feeds.get(only)
        if feed is not None and feed.timeline != timeline_of(bounds):
            feed.end()
            feed = None
        if feed is None:
            feed = feeds[only] = Feed(self._sessions, topic, only, bounds)
        feed.streams += 1
        return feed

    def leave(self, feed: Feed) -> None:
        """Remove one stream from a feed; the feed ends with the last one."""
        feed.streams -= 1
        if feed.streams:
            return
        feed.end()
        feeds = self._topics.get(feed.topic)
        if feeds is not None and feeds.by_filter.get(feed.only) is feed:
            del feeds.by_filter[feed.only]
        if feeds is not None and not feeds.by_filter:
            feeds.end()
            del self._topics[feed.topic]

    def ring(self, topic: str | None = None) -> None:
        """Have the feeds of a topic look; None: the feeds of all topics."""
        for name, feeds in self._topics.items():
            if topic in (None, name):
                feeds.ring()
