"""Filters of groups: show, set and clear them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.features.filters import stored as filters
from gapless.log.filter import filter_of
from gapless.ops.groups import one_topic, show_group
from gapless.ops.place import GroupPlace
from gapless.ops.rows import rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["FilterChange", "GroupFilter", "clear_filter", "list_filters", "set_filter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFilter:
    """The filter of a group: the events that it takes of a topic.

    event_types: in which * stands for any characters; None: any. where: a jsonpath predicate over
    the payload; None: none. params: values of its variables. set_by: a database role. The others
    count since it was set: kept: events for the handler. passed: events that did not match.
    unasked: events that were kept because it could not check them. unasked_offset: offset of the
    last of these.
    unasked_partition: its number among the topic's partitions. unasked_why: the filter's error.
    """

    group: str
    topic: str
    event_types: Sequence[str] | None
    where: str | None
    params: Mapping[str, Any] = field(metadata={"only_json": True})
    set_by: str
    set_at: datetime
    kept: int
    passed: int
    unasked: int
    unasked_partition: int | None
    unasked_offset: int | None
    unasked_why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterChange:
    """The result of a change to a group's filter; changed: False when it was so before."""

    group: str
    topic: str
    changed: bool


def list_filters(conn: Connection[Any], place: GroupPlace) -> list[GroupFilter]:
    """Return the filters of a group, or of one topic of it; none for a topic without a filter.

    Raises UsageError for a place with a partition, RefusedError (GL404) for an unknown group.
    """
    show_group(conn, place)
    where = {"group": place.group, "topic": place.topic}
    return rows(conn, GroupFilter, query("filters", "filters"), **where)


def set_filter(
    conn: Connection[Any],
    place: GroupPlace,
    *,
    event_types: Sequence[str] | None = None,
    where: str | None = None,
    params: Mapping[str, Any] | None = None,
) -> FilterChange:
    """Let a group take only the matching events of a topic, from its next claim on.

    event_types: 1 to 100, in each at most three * that stand for any characters. where: a jsonpath
    predicate over the payload. params: a value for each of its variables. Waits for the batches in
    hand. place: needs no topic if the group has one.
    Raises UsageError for an invalid filter and for a place with a partition; RefusedError for a
    variable without a value, for a queue group, and for an unknown group.
    """
    wanted = filter_of(event_types, where, params)
    if wanted is None:
        raise UsageError("a filter has event types or a condition")
    topic = one_topic(conn, place)
    changed = filters.set_filter(conn, place.group, topic, wanted)
    return FilterChange(group=place.group, topic=topic, changed=changed)


def clear_filter(conn: Connection[Any], place: GroupPlace) -> FilterChange:
    """Let a group take all events of a topic again, from its next claim on.

    Waits for the batches in hand. Raises UsageError for a place with a partition, RefusedError for
    an unknown group.
    """
    topic = one_topic(conn, place)
    changed = filters.clear_filter(conn, place.group, topic)
    return FilterChange(group=place.group, topic=topic, changed=changed)
