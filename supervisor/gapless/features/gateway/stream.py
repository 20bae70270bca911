"""GET stream: events as they come, as server-sent events; the client keeps its place itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
from psycopg import Connection
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gapless.errors import GaplessError
from gapless.features.filters.stored import check_filter
from gapless.features.gateway.events_out import gone, lost, partition_bounds
from gapless.features.gateway.feed import Feed, Line
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.params import PARTITION_MAX
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.shape import takes, text, whole
from gapless.features.gateway.vector import CHARACTERS_MAX, read_vector, vector_text
from gapless.features.gateway.way import AnswerShape, Asked, Ways
from gapless.log.filter import Filter, filter_of
from gapless.log.ranges import Bounds, bounds_of, replaced_from, timeline_of
from gapless.ops.entries import entry_json

KEEP_ALIVE_S = 15.0
SENT_CHARACTERS = 32_768  # characters of one write, about
RETRY_MS = 1_000  # the delay before a client connects again
_HEADERS = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
_TYPE = "text/event-stream"
_ALL = Filter()
ways = Ways()


@ways.way(
    "GET /v1/topics/{topic}/stream stream",
    "read:{topic}",
    query=takes(
        **{
            "from": text(
                "Where to begin without a Last-Event-ID.",
                enum=["earliest", "latest"],
                default="latest",
            ),
            "partition": whole(0, PARTITION_MAX, "Only this one."),
            "types": text(
                "Only these event types, with commas between them, * for any characters."
            ),
            "where": text("Only events whose payload this jsonpath predicate holds for."),
            "last_event_id": text(
                "As the header, for a client that cannot set it.", maxLength=CHARACTERS_MAX
            ),
        }
    ),
    headers=takes(
        **{
            "Last-Event-ID": {
                "type": "string",
                "maxLength": CHARACTERS_MAX,
                "description": "The id of the last event that the client has.",
            }
        }
    ),
    answers={
        200: AnswerShape(
            "A stream: id is the place behind the event, data an event.", {"type": "string"}, _TYPE
        )
    },
    fails=(404, 410),
)
async def stream_events(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Stream events as they come: server-sent events, from where the client was, or an end."""
    topic, types = asked["topic"], asked["types"]
    wanted = [each.strip() for each in types.split(",")] if types else None
    only = filter_of(wanted, asked["where"]) or _ALL
    bounds = await gateway.sessions.run(lambda conn: _checked(conn, topic, only))
    place, timeline = _place_in(request, asked, bounds)
    await gateway.sessions.run(lambda conn: _refuse_replaced(conn, topic, bounds, place, timeline))
    topic_id = next(iter(bounds.values())).topic_id
    if len(vector_text(topic_id, place, timeline_of(bounds))) > CHARACTERS_MAX:
        raise Problem(400, f"topic {topic} has too many partitions for one stream: say partition=")
    if request.method == "HEAD":
        return Response(headers=_HEADERS, media_type=_TYPE)
    # A stream of one partition follows no others, old or new.
    follows_new = asked["partition"] is None
    feed = await gateway.feeds.join(topic, only)
    gateway.listen_to(topic, bounds)
    ended = partial(gateway.access.end_of, request)
    where = _Place(topic_id, place, feed.timeline, follows_new=follows_new)
    return EventStream(gateway, feed, where, ended)


class _Place:
    """The place of a stream: the next offset of each partition."""

    def __init__(
        self, topic_id: int, next_offsets: dict[int, int], timeline: int, *, follows_new: bool
    ) -> None:
        self.topic_id = topic_id
        self.next_offsets = next_offsets
        self.timeline = timeline
        self._follows_new = follows_new

    @property
    def text(self) -> str:
        return vector_text(self.topic_id, self.next_offsets, self.timeline)

    def partitions(self, feed: Feed) -> list[int]:
        """Return the partitions to look at; new ones from their first event."""
        if self._follows_new:
            for number in feed.parts:
                self.next_offsets.setdefault(number, 1)
        return [number for number in self.next_offsets if number in feed.parts]


class EventStream(Response):
    """Sends events while the client takes and may read them; ends when the gateway drains."""

    def __init__(
        self, gateway: Gateway, feed: Feed, place: _Place, ended: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(headers=_HEADERS, media_type=_TYPE)
        del self.headers["content-length"]
        self._gateway = gateway
        self._feed = feed
        self._place = place
        self._ended = ended
        self._is_over = asyncio.Event()  # the key or token of the client is no longer valid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Answer; give the feed back, whatever the end."""
        ending = asyncio.ensure_future(self._end())
        leaving = asyncio.ensure_future(_disconnected(receive))
        sending = asyncio.ensure_future(self._send(send))
        self._gateway.streams += 1
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._gateway.streams -= 1
            self._gateway.feeds.leave(self._feed)
            for task in (sending, leaving, ending):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await sending

    async def _end(self) -> None:
        await self._ended()
        self._is_over.set()

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        try:
            async for text in self._texts():
                if self._is_over.is_set():
                    break
                body = {"type": "http.response.body", "body": text.encode(), "more_body": True}
                await send(body)
                await asyncio.sleep(0)  # MUST: a client that takes all would hold the loop
        except (psycopg.Error, GaplessError) as error:
            self._feed.trouble.note(error)  # the client connects again
        except Problem:
            pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _texts(self) -> AsyncIterator[str]:
        yield f"retry: {RETRY_MS}\nid: {self._place.text}\n\n"
        while not (self._gateway.is_draining or self._is_over.is_set() or self._feed.is_over):
            news = self._feed.news()  # MUST be before the look: later events set this one
            before = dict(self._place.next_offsets)
            for partition in self._place.partitions(self._feed):
                async for part in self._of(partition):
                    yield part
            is_idle = before == self._place.next_offsets
            if is_idle and not await self._gateway.either(news, KEEP_ALIVE_S, self._is_over):
                yield f": alive\nid: {self._place.text}\n\n"
        yield f"id: {self._place.text}\n\n"

    async def _of(self, partition: int) -> AsyncIterator[str]:
        """Yield the new events of a partition: those that are kept, or else some from the log."""
        offsets = self._place.next_offsets
        part = self._feed.parts[partition]
        if offsets[partition] >= part.next_offset:
            return
        if offsets[partition] < self._feed.first_offsets[partition]:
            raise Problem(410, "retention was faster than this stream")
        if offsets[partition] < part.first_offset:
            found = await self._feed.older(partition, offsets[partition])
            lines = [
                Line(each.offset, entry_json(self._feed.topic, each)) for each in found.entries
            ]
            next_offset = found.next_offset
        else:
            lines, next_offset = part.after(offsets[partition]), part.next_offset
        text = ""
        for line in lines:
            offsets[partition] = line.offset + 1
            text += f"id: {self._place.text}\ndata: {line.text}\n\n"
            if len(text) > SENT_CHARACTERS:
                yield text
                text = ""
        if text:
            yield text
        offsets[partition] = max(offsets[partition], next_offset)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _checked(conn: Connection[Any], topic: str, only: Filter) -> dict[int, Bounds]:
    check_filter(conn, only)
    return bounds_of(conn, topic)


def _place_in(
    request: Request, asked: Asked, bounds: dict[int, Bounds]
) -> tuple[dict[int, int], int | None]:
    """Return the place to begin: after the client's last event, or at the one it asks for.

    Return also the timeline of the log from which the client has its events; None: it is unknown.
    """
    vector = request.headers.get("last-event-id") or asked["last_event_id"]
    topic, only = asked["topic"], asked["partition"]
    topic_id = next(iter(bounds.values())).topic_id
    if only is not None:
        partition_bounds(bounds, topic, only)
    if vector:
        offsets, timeline = read_vector(vector, topic_id)
        place = _followed(topic, bounds, offsets, only)
        return _checked_place(topic, bounds, place), timeline
    begin = {
        number: here.first_offset if asked["from"] == "earliest" else here.next_offset
        for number, here in bounds.items()
        if only in (None, number)
    }
    return begin, None


def _refuse_replaced(
    conn: Connection[Any],
    topic: str,
    bounds: dict[int, Bounds],
    place: dict[int, int],
    timeline: int | None,
) -> None:
    """Raise Problem (410) for a place after events that the log has since replaced."""
    for number, offset in place.items():
        replaced = replaced_from(conn, bounds[number], offset, timeline)
        if replaced is not None:
            raise lost(topic, number, offset, replaced)


def _followed(
    topic: str, bounds: dict[int, Bounds], place: dict[int, int], only: int | None
) -> dict[int, int]:
    """Return the place in the partitions to follow; of a newer partition, its first event.

    Raises Problem: 400 for the place of a stream that did not follow it, 404 for another log's.
    """
    for number in place:
        partition_bounds(bounds, topic, number)
    wanted = bounds if only is None else (only,)
    left_out = set(range(max(place))) - place.keys()
    if left_out.intersection(wanted):
        raise Problem(400, f"Last-Event-ID: it is of a stream with partition={max(place)}")
    return {number: place.get(number, 1) for number in wanted}


def _checked_place(topic: str, bounds: dict[int, Bounds], place: dict[int, int]) -> dict[int, int]:
    """Return the place. Raises Problem: 410 if its events were dropped, 400 beyond the end."""
    for number, offset in place.items():
        here = bounds[number]
        if offset < here.first_offset:
            raise gone(topic, number, offset, here.first_offset)
        if offset > here.next_offset:
            raise Problem(
                400,
                f"Last-Event-ID: {topic}/{number} has no {offset - 1} yet: it is of another log, "
                "or of one that was restored",
            )
    return place
