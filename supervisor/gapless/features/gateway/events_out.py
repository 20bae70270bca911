"""GET events: a range of a partition, which never changes unless a failover loses its end."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from psycopg import Connection
from starlette.requests import Request
from starlette.responses import Response

from gapless.errors import RefusedError
from gapless.features.gateway.gateway import Gateway
from gapless.features.gateway.params import PARTITION_MAX
from gapless.features.gateway.problem import Problem
from gapless.features.gateway.shape import (
    EVENT,
    ID_MAX,
    MAYBE_TEXT,
    listed,
    nullable,
    record,
    takes,
    whole,
)
from gapless.features.gateway.way import AnswerShape, Asked, Ways
from gapless.log.ranges import Bounds, RangeSlice, bounds_of, read_range, replaced_from
from gapless.log.tail import Entry
from gapless.ops.entries import entry_json
from gapless.ops.event import show_event
from gapless.ops.text import json_text

EVENTS_MAX = 1_000
TIMELINE_MAX = 2**31 - 1
_BYTES_MAX = 4 * 1024 * 1024
_TAGS = re.compile(r'"[^"]*"')


_INTEGER = {"type": "integer"}
_LOG_EVENT = record(
    "topic partition offset payload",
    **EVENT,
    payload_begins={"type": "string", "description": "Of a payload that was cut."},
    topic={"type": "string"},
    created_ts={"type": "string"},
    message_id=_INTEGER,
)
_RANGE = record(
    "first_offset next_offset end_offset timeline events",
    first_offset=_INTEGER,
    next_offset={**_INTEGER, "description": "Where to continue."},
    end_offset={**_INTEGER, "description": "The offset that the next event gets."},
    timeline={**_INTEGER, "description": "Of the log, to be given with the next `from`."},
    events=listed(_LOG_EVENT),
)
PAYLOAD_CHARS = whole(
    1, 10_000_000, "A longer payload is null, and payload_begins has so many characters of it."
)
_MAYBE_INTEGER = nullable(_INTEGER)
_ONE = record(
    "event payload_bytes first_offset last_offset previous next previous_of_key next_of_key groups",
    event=_LOG_EVENT,
    payload_bytes=_INTEGER,
    first_offset={**_INTEGER, "description": "Of its unit."},
    last_offset=_INTEGER,
    previous={**_MAYBE_INTEGER, "description": "In its partition."},
    next=_MAYBE_INTEGER,
    previous_of_key={**_MAYBE_INTEGER, "description": "Among 5000 events, as next_of_key."},
    next_of_key=_MAYBE_INTEGER,
    groups=listed(
        record(
            "group mode state next_offset behind unit letter reason attempts",
            group={"type": "string"},
            mode={"type": "string"},
            state={"enum": ["handled", "pending", "dead", "waiting", "before", "unplaced"]},
            next_offset=_MAYBE_INTEGER,
            behind={**_MAYBE_INTEGER, "description": "Offsets until the group comes to it."},
            unit={**_MAYBE_INTEGER, "description": "The offset of its dead letter."},
            letter=MAYBE_TEXT,
            reason=MAYBE_TEXT,
            attempts=_MAYBE_INTEGER,
        )
    ),
)
ways = Ways()


@ways.way(
    "GET /v1/topics/{topic}/events read",
    "read:{topic}",
    query=takes(
        "partition",
        **{
            "partition": whole(0, PARTITION_MAX, "The partition."),
            "from": whole(1, ID_MAX, "The first offset.", default=1),
            "limit": whole(
                1, EVENTS_MAX, "Events, at most; fewer when they are large.", default=100
            ),
            "timeline": whole(
                0,
                TIMELINE_MAX,
                "The timeline that an answer before had: 410 if a failover has lost events before "
                "`from` since.",
            ),
        },
    ),
    headers=takes(**{"If-None-Match": {"type": "string"}}),
    answers={200: AnswerShape("Events.", _RANGE), 304: AnswerShape("As before.")},
    fails=(404, 410),
)
async def read_events(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Return a range of a partition, which never changes: at most `limit` events."""
    topic, partition, first, events_max = (
        asked[each] for each in ("topic", "partition", "from", "limit")
    )
    timeline = asked["timeline"] or None
    has = partial(_has, ", ".join(request.headers.getlist("if-none-match")))

    def read(conn: Connection[Any]) -> tuple[Bounds, int, RangeSlice | None]:
        here = partition_bounds(bounds_of(conn, topic), topic, partition)
        if first < here.first_offset:
            raise gone(topic, partition, first, here.first_offset)
        if (replaced := replaced_from(conn, here, first, timeline)) is not None:
            raise lost(topic, partition, first, replaced)
        offsets = range(first, min(first + events_max, max(here.next_offset, first)))
        if has(_tag(here, first, offsets.stop)):
            return here, offsets.stop, None
        found = read_range(conn, topic, partition, offsets, bytes_max=_BYTES_MAX)
        return here, found.next_offset, found

    here, next_offset, found = await gateway.sessions.run(read)
    # Weak: the body also has end_offset, which grows.
    tag = _tag(here, first, next_offset)
    headers = {"ETag": f"W/{tag}", "Cache-Control": "private, no-cache"}
    if found is None or has(tag):
        return Response(status_code=304, headers=headers)
    events = ", ".join(entry_json(topic, each) for each in found.entries)
    head = f'{{"first_offset": {first}, "next_offset": {found.next_offset}, '
    end = f'"end_offset": {here.next_offset}, "timeline": {here.timeline}'
    body = f'{head}{end}, "events": [{events}]}}'
    return Response(body, headers=headers, media_type="application/json")


@ways.way(
    "GET /v1/topics/{topic}/events/{partition}/{offset} event",
    "read:{topic}",
    in_path={"partition": whole(0, PARTITION_MAX), "offset": whole(1, ID_MAX)},
    query=takes(payload_chars=PAYLOAD_CHARS),
    answers={200: AnswerShape("It.", _ONE)},
)
async def one_event(gateway: Gateway, request: Request, asked: Asked) -> Response:
    """Return one event, the offsets around it, and its state in the groups that may be read.

    That needs read:*, or consume of the group.
    """
    topic, partition, offset = (asked[each] for each in ("topic", "partition", "offset"))
    found = await gateway.sessions.run(lambda conn: show_event(conn, topic, partition, offset))
    may = partial(gateway.access.has_any, request, "read:*")
    groups = [each for each in found.groups if may(f"consume:{each.group}")]
    beside = asdict(replace(found, groups=groups))
    del beside["entry"]
    beside["payload_bytes"] = len((found.entry.payload or "").encode())
    event = cut_json(topic, found.entry, asked["payload_chars"])
    body = f'{{"event": {event}, {json_text(beside)[1:]}'
    return Response(body, media_type="application/json")


def cut_json(topic: str, entry: Entry, chars: int | None) -> str:
    """Write an event; a payload of more than so many characters is cut. None: it is whole."""
    if chars is None or len(entry.payload or "") <= chars:
        return entry_json(topic, entry)
    begins = json_text((entry.payload or "")[:chars])
    return f'{entry_json(topic, replace(entry, payload=None))[:-1]}, "payload_begins": {begins}}}'


def partition_bounds(bounds: dict[int, Bounds], topic: str, partition: int) -> Bounds:
    """Return the bounds of a partition. Raises RefusedError (GL404) if there is none."""
    if partition not in bounds:
        raise RefusedError(
            f'topic "{topic}" has partitions 0 to {max(bounds)}, no {partition}', sqlstate="GL404"
        )
    return bounds[partition]


def gone(topic: str, partition: int, offset: int, first_offset: int) -> Problem:
    """Return the problem of an offset that retention has dropped."""
    return Problem(
        410,
        f"{topic}/{partition}@{offset} is no more there, retention has dropped it: the oldest "
        f"event is {first_offset}",
        partition=partition,
        first_offset=first_offset,
    )


def lost(topic: str, partition: int, offset: int, first_offset: int) -> Problem:
    """Return the problem of an offset after events that a failover has lost."""
    return Problem(
        410,
        f"{topic}/{partition}@{offset}: a failover has lost events that were read up to there, and "
        f"given their offsets to others: read again from {first_offset}",
        partition=partition,
        first_offset=first_offset,
    )


def _has(if_none_match: str, tag: str) -> bool:
    """Tell whether a client has the content of a tag; weak or strong makes no difference here."""
    return if_none_match.strip() == "*" or tag in _TAGS.findall(if_none_match)


def _tag(here: Bounds, first_offset: int, next_offset: int) -> str:
    return f'"{here.topic_id}-{here.partition}-{first_offset}-{next_offset}-{here.timeline}"'
