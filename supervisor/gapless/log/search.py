"""Search a topic from its newest events back, with a bound on the events that are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    before: only events before these offsets, of these partitions; None: of all, to their ends.
    """

    key: str | None = None
    only: Filter = ALL
    transaction_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    before: Mapping[int, int] | None = None

    def includes(self, entry: Entry) -> bool:
        """Whether an event of a slice is wanted; the query has checked the key and the filter."""
        return (
            (self.transaction_id is None or entry.transaction_id == self.transaction_id)
            and (self.since is None or entry.created_ts >= self.since)
            and (self.until is None or entry.created_ts <= self.until)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEvents:
    """The result of a search, newest event first; within a partition in the order of offsets.

    looked_at: the number of events that were read; is_complete: there are no others.
    older: the offset of each partition before which others may be: `before` of the search that
    continues this one. It is empty when that is complete.
    """

    entries: Sequence[Entry]
    looked_at: int
    is_complete: bool
    older: Mapping[int, int] = field(default_factory=dict)


def search_events(
    conn: Connection[Any],
    topic: Topic,
    wanted: EventSearch,
    *,
    limit: int = 100,
    look_max: int = 50_000,
    payload_chars: int | None = None,
) -> FoundEvents:
    """Return the newest events that are wanted, and whether these are all.

    limit: at most N events are returned. look_max: the search ends once it has read N events.
    payload_chars: payloads are cut to N characters; None: they are whole.
    Events without an offset yet are not found. Those to which a filter cannot be applied are found.
    """
    unread = _places(conn, topic, wanted)
    turns = deque(unread)
    found: list[Entry] = []
    looked_at = 0
    while turns and looked_at < look_max:
        partition = turns.popleft()
        ends = unread[partition].pop()
        low = max(ends.first_offset, ends.last_offset - _SLICE_EVENTS + 1)
        looked_at += ends.last_offset - low + 1
        found += _slice(conn, topic, wanted, (partition, low, ends.last_offset), chars=0)
        if low > ends.first_offset:
            unread[partition].append(replace(ends, last_offset=low - 1))
        # `limit` newer events of the partition come before its older ones.
        if unread[partition] and sum(each.partition == partition for each in found) < limit:
            turns.append(partition)
    newest = _newest_first(found)
    older = {number: rest[-1].last_offset + 1 for number, rest in unread.items() if rest}
    for each in newest[limit:]:
        older[each.partition] = max(older.get(each.partition, 0), each.offset + 1)
    return FoundEvents(
        entries=[
            whole
            for each in newest[:limit]
            for whole in _slice(
                conn, topic, wanted, (each.partition, each.offset, each.offset), chars=payload_chars
            )
        ],
        looked_at=looked_at,
        is_complete=not older,
        older=older,
    )


def next_of_key(
    conn: Connection[Any], topic: Topic, key: str, partition: int, offsets: range
) -> int | None:
    """Return the first of these offsets whose event has that key."""
    for low in range(offsets.start, offsets.stop, _SLICE_EVENTS):
        high = min(low + _SLICE_EVENTS, offsets.stop) - 1
        wanted = EventSearch(key=key)
        for each in _slice(conn, topic, wanted, (partition, low, high), chars=0):
            return each.offset
    return None


def _newest_first(found: Sequence[Entry]) -> list[Entry]:
    """Sort by id, but never against offsets: an event may have a lower id than the one before."""
    highest: dict[int, int] = {}
    ranked: list[tuple[int, int, Entry]] = []
    for each in sorted(found, key=lambda each: each.offset):
        highest[each.partition] = max(highest.get(each.partition, 0), each.message_id)
        ranked.append((highest[each.partition], each.offset, each))
    return [each for *_, each in sorted(ranked, key=lambda each: each[:2], reverse=True)]


def _places(conn: Connection[Any], topic: Topic, wanted: EventSearch) -> dict[int, list[Ends]]:
    """Return the ranges of offsets to search, by partition; of each the newest comes last."""
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
        rows = cursor.execute(query("tail", name), params).fetchall()
    places: dict[int, list[Ends]] = {}
    for each in rows:
        last = each.last_offset
        if wanted.before is not None:
            last = min(last, wanted.before.get(each.partition, 0) - 1)
        if last >= each.first_offset:
            places.setdefault(each.partition, []).append(replace(each, last_offset=last))
    return places


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
