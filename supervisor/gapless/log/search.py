"""Search a topic from its newest events back, with a bound on the events that are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from gapless.db.queries import query
from gapless.log.filter import ALL, Filter
from gapless.log.tail import Ends, Entry, partitions_of
from gapless.log.topics import Topic

__all__ = ["EventSearch", "FoundEvents", "search_events"]

_SLICE_EVENTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSearch:
    """The conditions of a search; an event has to meet all that are given.

    key: events with it (without one, with that host_id). only: events that a filter keeps.
    transaction_id: found by index. since, until: bounds of the publishing time, both inclusive.
    """

    key: str | None = None
    only: Filter = ALL
    transaction_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None

    def includes(self, entry: Entry) -> bool:
        """Whether an event of a slice is wanted; the query has checked the key and the filter."""
        return (
            (self.transaction_id is None or entry.transaction_id == self.transaction_id)
            and (self.since is None or entry.created_ts >= self.since)
            and (self.until is None or entry.created_ts <= self.until)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEvents:
    """The result of a search, newest event first.

    looked_at: the number of events that were read; is_complete: there are no others.
    """

    entries: Sequence[Entry]
    looked_at: int
    is_complete: bool


def search_events(
    conn: Connection[Any],
    topic: Topic,
    wanted: EventSearch,
    *,
    limit: int = 100,
    look_max: int = 50_000,
) -> FoundEvents:
    """Return the newest events that are wanted, and whether these are all.

    limit: at most N events are returned. look_max: the search ends once it has read N events.
    Events without an offset yet are not found. Those to which a filter cannot be applied are found.
    """
    rest = deque(_places(conn, topic, wanted))
    found: list[Entry] = []
    looked_at = 0
    cut = False
    while rest and looked_at < look_max:
        ends = rest.popleft()
        low = max(ends.first_offset, ends.last_offset - _SLICE_EVENTS + 1)
        looked_at += max(0, ends.last_offset - low + 1)
        found += _slice(conn, topic, wanted, (ends.partition, low, ends.last_offset), chars=0)
        if low <= ends.first_offset:
            continue
        if sum(each.partition == ends.partition for each in found) >= limit:
            cut = True  # older events of this partition come after `limit` newer ones
            continue
        rest.append(
            Ends(partition=ends.partition, first_offset=ends.first_offset, last_offset=low - 1)
        )
    newest = sorted(found, key=lambda each: each.message_id, reverse=True)
    return FoundEvents(
        entries=[
            whole
            for each in newest[:limit]
            for whole in _slice(conn, topic, wanted, (each.partition, each.offset, each.offset))
        ],
        looked_at=looked_at,
        is_complete=not (rest or cut or len(newest) > limit),
    )


def _places(conn: Connection[Any], topic: Topic, wanted: EventSearch) -> list[Ends]:
    """Return the ranges of offsets to search."""
    params = {
        "topic_id": topic.topic_id,
        "partitions": partitions_of(conn, topic, wanted.key),
        "transaction_id": wanted.transaction_id,
        "since": wanted.since,
    }
    if wanted.transaction_id is not None:
        name = "ends_of_transaction"
    else:
        name = "ends" if wanted.since is None else "ends_since"
    with conn.cursor(row_factory=class_row(Ends)) as cursor:
        return cursor.execute(query("tail", name), params).fetchall()


def _slice(
    conn: Connection[Any],
    topic: Topic,
    wanted: EventSearch,
    place: tuple[int, int, int],
    *,
    chars: int | None = None,
) -> Iterator[Entry]:
    """Return the wanted events of a range, their payloads cut to `chars` characters."""
    partition, first_offset, last_offset = place
    params = {
        "topic": topic.name, "partition": partition, "first_offset": first_offset,
        "last_offset": last_offset, "key": wanted.key, "payload_chars": chars,
        **wanted.only.query_params,
    }  # fmt: skip
    with conn.cursor(row_factory=class_row(Entry)) as cursor:
        rows = cursor.execute(query("tail", "slice"), params).fetchall()
    return (each for each in rows if wanted.includes(each))
