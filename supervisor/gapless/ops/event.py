"""One event: its neighbours, and its state in each group of its topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.errors import RefusedError
from gapless.log.ranges import bounds_of, read_range
from gapless.log.search import EventSearch, next_of_key, search_events
from gapless.log.topics import require_topic
from gapless.ops.rows import row, rows

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.log.tail import Entry

__all__ = ["EventInGroup", "EventInfo", "show_event"]

_LOOK_MAX = 5_000  # events on each side, for another one of the same key


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInGroup:
    """An event in a group. state: handled, pending, or set aside: dead or waiting.

    state also: before (the group began after the event), skipped (the newest seek over it went
    forward; known as long as the audit is kept), or unplaced (the group has no offset in the
    partition). next_offset: the offset that the group handles next; None: it has none.
    behind: events from that one to this one; 0: it has passed it. unit: the first offset of the
    unit that was set aside, if it was. letter: the state of its dead letter. reason: of that, or
    the seek. attempts: calls that ended.
    """

    group: str
    mode: str
    state: str
    next_offset: int | None
    behind: int | None
    unit: int | None
    letter: str | None
    reason: str | None
    attempts: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventInfo:
    """An event of the log, with the offsets around it; None: there is none.

    first_offset to last_offset: the unit, which is handled as a whole. previous: the offset
    before it in the partition. next: the offset after it. previous_of_key: the offset of the event
    before it with its key. next_of_key: the offset of the one after it; each among 5000 events.
    """

    entry: Entry
    first_offset: int
    last_offset: int
    previous: int | None
    next: int | None
    previous_of_key: int | None
    next_of_key: int | None
    groups: Sequence[EventInGroup]


def show_event(conn: Connection[Any], topic: str, partition: int, offset: int) -> EventInfo:
    """Return an event. Raises RefusedError (GL404) when there is none, with the likely reason."""
    here = bounds_of(conn, topic).get(partition)
    there = range(here.first_offset, here.next_offset) if here is not None else range(0)
    found = read_range(
        conn, topic, partition, range(offset, offset + (offset in there)), bytes_max=1
    ).entries
    if here is None or not found:
        what = f"events {there[0]} to {there[-1]}" if there else "no events"
        what = "no such partition" if here is None else f"{what} in this partition"
        name = f"{topic}/{partition}@{offset}"
        raise RefusedError(f"{name} is not there: the topic has {what}", sqlstate="GL404")
    entry = found[0]
    before, after = _beside_of_key(conn, topic, entry, here.next_offset)
    place = {"topic": topic, "partition": partition, "offset": offset}
    first, last = row(conn, query("event", "unit"), **place)
    return EventInfo(
        entry=entry,
        first_offset=first,
        last_offset=last,
        previous=offset - 1 if offset > here.first_offset else None,
        next=offset + 1 if offset + 1 < here.next_offset else None,
        previous_of_key=before,
        next_of_key=after,
        groups=rows(
            conn,
            EventInGroup,
            query("event", "groups"),
            **place,
            first_offset=first,
            last_offset=last,
        ),
    )


def _beside_of_key(
    conn: Connection[Any], name: str, entry: Entry, end_offset: int
) -> tuple[int | None, int | None]:
    if entry.key is None:
        return None, None
    topic = require_topic(conn, name)
    wanted = EventSearch(key=entry.key, before={entry.partition: entry.offset})
    found = search_events(conn, topic, wanted, limit=1, look_max=_LOOK_MAX, payload_chars=0)
    offsets = range(entry.offset + 1, min(entry.offset + 1 + _LOOK_MAX, end_offset))
    after = next_of_key(conn, topic, entry.key, entry.partition, offsets)
    return next((each.offset for each in found.entries), None), after
