"""Places in the log: the place of a group, and a point that is found in each partition."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from gapless.errors import UsageError
from gapless.ops.text import stamp, whole_seconds

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["EARLIEST", "GroupPlace", "Point"]

_NUMBER = re.compile("[0-9]{1,18}")
_PLACE = re.compile(r"([^/@]+)(?:/([^/@]+)(?:/([0-9]{1,9})(?:[/@]([0-9]{1,18}))?)?)?")
_ENDS = ("earliest", "latest", "latest-per-key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point for all partitions in range; exactly one of these is set.

    end: `earliest` is the oldest event there is, `latest` the next event that is published,
    `latest-per-key` the newest event of each key, then the log: only where a group is made. offset:
    from 1. time: the first event published then or later. transaction: the first event of this
    transaction_id, in each partition that has one.
    """

    end: str | None = None
    offset: int | None = None
    time: datetime | None = None
    transaction: UUID | None = None

    def __post_init__(self) -> None:
        said = [self.end, self.offset, self.time, self.transaction]
        if sum(each is not None for each in said) != 1:
            raise UsageError("a point is one of these: an end, an offset, a time, a transaction")
        if self.end not in (None, *_ENDS):
            raise UsageError(
                f"{self.end!r} is not an end of the log: earliest, latest or latest-per-key"
            )

    @classmethod
    def parse(cls, text: str) -> Point:
        """Read earliest, latest, an offset, or a time in ISO 8601. Raises UsageError."""
        if text in _ENDS:
            return cls(end=text)
        if _NUMBER.fullmatch(text):
            return cls(offset=int(text))
        try:
            return cls(time=read_time(text))
        except UsageError:
            raise UsageError(
                f"{text!r} is not earliest, latest, an offset, or a time such as "
                "2026-03-01T12:00:00Z"
            ) from None

    def __str__(self) -> str:
        if self.time is not None:
            return stamp(self.time)
        return self.end or str(self.offset or self.transaction)


EARLIEST = Point(end="earliest")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlace:
    """A group, or one topic of it, a partition, an offset: `billing/orders/3@17`.

    A field that is None covers all topics, or all partitions. A partition without a topic means
    that partition of all topics of the group; an offset, from 1, needs both.
    """

    group: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def __post_init__(self) -> None:
        if self.offset is not None and (self.topic is None or self.partition is None):
            raise UsageError(f"offset {self.offset} of group {self.group}: of which partition?")

    @classmethod
    def parse(cls, text: str) -> GroupPlace:
        """Read GROUP[/TOPIC[/PARTITION[@OFFSET]]]; a slash may stand in place of the @.

        Raises UsageError for anything else.
        """
        found = _PLACE.fullmatch(text)
        if found is None:
            raise UsageError(
                f"{text!r} is not GROUP, GROUP/TOPIC, GROUP/TOPIC/PARTITION or a place such as "
                "billing/orders/3@17"
            )
        numbers = [None if number is None else int(number) for number in found.groups()[2:]]
        return cls(group=found[1], topic=found[2], partition=numbers[0], offset=numbers[1])

    @classmethod
    def parse_event(cls, text: str) -> GroupPlace:
        """Read GROUP/TOPIC/PARTITION@OFFSET, all of it. Raises UsageError."""
        found = _PLACE.fullmatch(text)
        if found is None or found[4] is None:
            raise UsageError(
                f"{text!r} is not GROUP/TOPIC/PARTITION@OFFSET, such as billing/orders/3@17"
            )
        return cls.parse(text)

    def __str__(self) -> str:
        parts = [self.group, self.topic, self.partition]
        place = "/".join(str(part) for part in parts if part is not None)
        return place if self.offset is None else f"{place}@{self.offset}"

    @property
    def range(self) -> dict[str, object]:
        """The parameters of the queries that take a group, perhaps a topic, and a partition."""
        return {"group": self.group, "topic": self.topic, "partition": self.partition}

    @property
    def event(self) -> dict[str, object]:
        """The parameters of `range` and the offset. Raises UsageError when there is none."""
        if self.offset is None:
            raise UsageError(f"{self} is not GROUP/TOPIC/PARTITION@OFFSET")
        return {**self.range, "offset": self.offset}

    def require_whole(self) -> None:
        """Refuse a place with an offset: only a whole partition can rest. Raises UsageError."""
        if self.offset is not None:
            whole = replace(self, offset=None)
            raise UsageError(f"{self} is one event: a partition rests as a whole, {whole}")


def spell(group: str, topic: str, partition: int, offset: int) -> str:
    """Write the place of an event or a unit."""
    return str(GroupPlace(group=group, topic=topic, partition=partition, offset=offset))


def read_age(text: str | None, what: str, *, also: str = "") -> int | None:
    """Read an age, such as 12h, as seconds, 1 to a hundred years; None stays None.

    what: the option, for the message; also: the other values that it takes. Raises UsageError.
    """
    seconds = None if text is None else whole_seconds(text)
    if text is not None and seconds is None:
        must = "a whole number with its unit (90s, 15m, 12h, 7d)"
        raise UsageError(f"{what} {text!r}: {must}{also}")
    return seconds


def read_time(text: str) -> datetime:
    """Read a time in ISO 8601, as UTC; one without an offset is UTC. Raises UsageError."""
    try:
        read = datetime.fromisoformat(text.strip())
        return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except (ValueError, OverflowError):  # the second one: outside the years 1 to 9999 in UTC
        raise UsageError(f"{text!r} is not a time: write it as 2026-03-01T12:00:00Z") from None


def read_since(text: str) -> datetime | timedelta:
    """Read a time, as read_time() does, or an age, such as 12h. Raises UsageError."""
    seconds = whole_seconds(text)
    if seconds is not None:
        return timedelta(seconds=seconds)
    try:
        return read_time(text)
    except UsageError as error:
        raise UsageError(f"{error}, or an age as 15m, 12h, 7d") from None


def require_range(
    conn: Connection[Any], since: datetime | timedelta | None, until: datetime | None
) -> None:
    """Raise UsageError for a range that ends before it begins; since: a time, or an age."""
    if since is None or until is None:
        return
    begin = since
    if isinstance(begin, timedelta):
        ((begin,),) = conn.execute("select now() - %s", [begin]).fetchall()
    if until < begin:
        raise UsageError(f"the range ends at {until} before it begins at {begin}")


def read_transaction(text: str) -> UUID:
    """Read a transaction_id. Raises UsageError."""
    try:
        return UUID(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a transaction_id: that is a UUID, as gapless tail --json shows it"
        ) from None
