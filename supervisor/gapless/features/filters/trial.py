"""Ask the filter of a group, or its subscriptions, about one event of the log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gapless.db.queries import query
from gapless.errors import RefusedError, UsageError
from gapless.ops.groups import one_topic
from gapless.ops.place import GroupPlace, spell
from gapless.ops.rows import rows

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["EventTrial", "takes_event"]

_SPOT = re.compile("([0-9]{1,4})@([0-9]{1,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRow:
    """The answer of the database, as the query returns it."""

    takes_all: bool
    takes: bool
    error: str | None
    subscriptions: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTrial:
    """Whether a group takes an event. why: in words. subscriptions: names of those that match."""

    group: str
    topic: str
    partition: int
    offset: int
    takes: bool
    why: str
    subscriptions: Sequence[str]

    def __str__(self) -> str:
        place = spell(self.group, self.topic, self.partition, self.offset)
        return f"{place} is {'taken' if self.takes else 'passed'}: {self.why}"


def read_spot(text: str) -> tuple[int, int]:
    """Read PARTITION@OFFSET. Raises UsageError."""
    found = _SPOT.fullmatch(text)
    if found is None:
        raise UsageError(f"{text[:100]!r} is no PARTITION@OFFSET, such as 3@17")
    return int(found[1]), int(found[2])


def takes_event(
    conn: Connection[Any], place: GroupPlace, partition: int, offset: int
) -> EventTrial:
    """Tell whether a group takes the event at an offset; SQL conditions are not evaluated.

    place: a group, and its topic if it has several. Raises RefusedError (GL404) for an unknown
    group and for an event that is not there; UsageError for a place with a partition.
    """
    topic = one_topic(conn, place)
    where = {"group": place.group, "topic": topic, "partition": partition, "offset": offset}
    found = rows(conn, TakenRow, query("filters", "takes"), **where)
    if not found:
        raise RefusedError(
            f"{topic} has no event at {partition}@{offset}, or none any more", sqlstate="GL404"
        )
    (said,) = found
    return EventTrial(
        group=place.group,
        topic=topic,
        partition=partition,
        offset=offset,
        takes=said.takes,
        why=_why(said),
        subscriptions=said.subscriptions,
    )


def _why(said: TakenRow) -> str:
    if said.error is not None:
        return f"the filter could not be evaluated: {said.error}"
    if said.subscriptions:
        return f"subscriptions match: {', '.join(said.subscriptions)}"
    if said.takes_all and said.takes:
        return "the group takes all events"
    return "the filter matches" if said.takes else "nothing of the group matches"
