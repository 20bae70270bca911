"""Places in the log as Spark keeps them: the next offset to read, by topic and partition.

The JSON is Kafka's: {"orders": {"0": 1001, "1": 1}}; -2 is earliest and -1 latest. A stream's place
has a mark beside its topics, {"": {"timeline": 2, "created orders": 1769860800000000}}: the
timeline of the log that it has read, and when its topics were created, in microseconds since 1970.
The end of a query's first batch has the beginning there, too: {"begin orders/0": 990}. Spark keeps
ends only, and asks for the beginning anew when it repeats that batch. A beginning with the newest
event of each key has, for each topic, when its compaction began: {"latest orders": 176986...}; the
events of lower offsets are then read from the table of that compaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from gapless.errors import UsageError
from gapless.features.spark.values import moment

EARLIEST = -2
LATEST = -1
LATEST_PER_KEY = "latest-per-key"
_MARK = ""  # no topic has this name
_BEGIN = "begin "
_LATEST = "latest "
_RELATIVE = re.compile(r"-([0-9]{1,15})(ms|s|m|h|d)?", re.IGNORECASE)
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_AGO_MAX = timedelta(days=36_500)

# By topic, by partition: the next offset to read.
Offsets = dict[str, dict[int, int]]
Json = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPosition:
    """A place that an option names; option: its name, for messages.

    One of the ends; a group's position; offsets; the first event of a moment or later, in all
    partitions or (moments) in some; so many events before the end of each partition (back); a time
    before the read begins (ago); the newest event of each key of a compacted topic, then the log
    (latest-per-key).
    """

    kind: Literal[
        "earliest",
        "latest",
        "latest-per-key",
        "group",
        "offsets",
        "moment",
        "moments",
        "back",
        "ago",
    ]
    option: str = ""
    group_id: str = ""
    offsets: Mapping[str, Mapping[int, int]] | None = None
    moment: datetime | None = None
    moments: Mapping[str, Mapping[int, datetime]] | None = None
    back: int = 0
    ago: timedelta = timedelta()


def place_of(
    options: Mapping[str, str], edge: Literal["starting", "ending"]
) -> StartPosition | None:
    """Return the place that the options of an edge name; None: no option does.

    options: by their names in lower case. Raises UsageError for a text that names none, and for two
    options.
    """
    offsets, since, by_partition = (
        f"{edge}Offsets", f"{edge}Timestamp", f"{edge}OffsetsByTimestamp",
    )  # fmt: skip
    said = [each for each in (since, by_partition, offsets) if each.lower() in options]
    if len(said) > 1:
        raise UsageError(f"give {said[0]} or {said[1]}, not both")
    if not said:
        return None
    name, text = said[0], options[said[0].lower()]
    if name == since:
        return StartPosition(kind="moment", option=name, moment=moment(name, text))
    if name == by_partition:
        return StartPosition(kind="moments", option=name, moments=_moments(name, text))
    return _parse_place(name, text.strip())


def refuse_reversed(start: StartPosition | None, end: StartPosition | None) -> None:
    """Raise UsageError for two places if the first one is always behind the second."""
    if end is not None and end.kind == LATEST_PER_KEY:
        raise UsageError(
            f"{end.option}: {LATEST_PER_KEY} is a beginning: say it in startingOffsets"
        )
    if start is None or end is None:
        return
    if start.kind == LATEST_PER_KEY:
        raise UsageError(
            f"{start.option} {LATEST_PER_KEY} reads up to the end of the log: leave {end.option} "
            "out"
        )
    if (start.kind, end.kind) == ("latest", "earliest"):
        raise UsageError("startingOffsets latest to endingOffsets earliest is the wrong way round")
    if start.moment is not None and end.moment is not None and start.moment > end.moment:
        raise UsageError("startingTimestamp is later than endingTimestamp")
    if start.kind == end.kind and (start.back < end.back or start.ago < end.ago):
        raise UsageError("startingOffsets goes back less far than endingOffsets")


def _parse_place(option: str, word: str) -> StartPosition:
    """Parse `earliest`, `latest`, `latest-per-key`, `group:NAME`, `-10m`, `-1000` or JSON."""
    if word.lower() == "earliest":
        return StartPosition(kind="earliest", option=option)
    if word.lower() == "latest":
        return StartPosition(kind="latest", option=option)
    if word.lower() == LATEST_PER_KEY:
        return StartPosition(kind="latest-per-key", option=option)
    if word.startswith("group:"):
        return StartPosition(kind="group", option=option, group_id=word.removeprefix("group:"))
    if word.startswith("-"):
        return _relative(option, word)
    if not word.startswith("{"):
        raise UsageError(
            f"{option} {word!r}: earliest, latest, latest-per-key, group:NAME, -10m, -1000 or JSON "
            'like {"orders": {"0": 1}}'
        )
    try:
        return StartPosition(kind="offsets", option=option, offsets=from_json(json.loads(word)))
    except (ValueError, TypeError, AttributeError):
        raise UsageError(
            f'{option} is not JSON like {{"orders": {{"0": 23, "1": -2}}}}: {word[:100]}'
        ) from None


def _relative(option: str, word: str) -> StartPosition:
    """Parse a time before now, or a number of events before the end."""
    match = _RELATIVE.fullmatch(word)
    if match is None:
        raise UsageError(
            f"{option} {word!r}: -10m is a time ago (ms, s, m, h, d), -1000 events back"
        )
    number, unit = int(match[1]), match[2]
    if unit is None:
        if number <= -EARLIEST:
            raise UsageError(
                f"{option} {word!r}: -1 is latest and -2 earliest within JSON only; say earliest, "
                "latest, or go back 3 events or more"
            )
        return StartPosition(kind="back", option=option, back=number)
    if number > _AGO_MAX // _UNITS[unit.lower()]:
        raise UsageError(f"{option} {word!r}: {_AGO_MAX.days} days at most")
    return StartPosition(kind="ago", option=option, ago=number * _UNITS[unit.lower()])


def _moments(option: str, text: str) -> dict[str, dict[int, datetime]]:
    """Parse a moment for each partition, in milliseconds or ISO 8601."""
    try:
        return {
            topic: {
                int(partition_id): moment(option, _text(given))
                for partition_id, given in partitions.items()
            }
            for topic, partitions in json.loads(text).items()
        }
    except (ValueError, TypeError, AttributeError):
        raise UsageError(
            f'{option} is not JSON like {{"orders": {{"0": 1769860800000}}}}: {text[:100]}'
        ) from None


def _text(given: object) -> str:
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise TypeError(given)
    return str(given)


def from_json(document: Any) -> Offsets:
    """Read the output of to_json(); raises ValueError, TypeError or AttributeError for the rest."""
    offsets: Offsets = {}
    for topic, partitions in document.items():
        if topic == _MARK:
            continue
        offsets[topic] = {}
        for partition_id, offset in partitions.items():
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < EARLIEST:
                raise ValueError(f"{offset!r} is not an offset")
            offsets[topic][int(partition_id)] = offset
    return offsets


def timeline_in(document: Json) -> int | None:
    """Return the timeline of a place; None: written by hand, or by a version without timelines."""
    return document.get(_MARK, {}).get("timeline")


def created_in(document: Json, topic: str) -> int | None:
    """Return when a topic of a place was created; None: as above."""
    return document.get(_MARK, {}).get(f"created {topic}")


def latest_in(document: Json) -> dict[str, int]:
    """Return when the compaction of each topic began, for a beginning with the newest events."""
    return {
        name.removeprefix(_LATEST): moment
        for name, moment in document.get(_MARK, {}).items()
        if name.startswith(_LATEST)
    }


def mark(
    timeline: int, created_us: Mapping[str, int], latest_us: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the mark of a stream's place; latest_us: see latest_in()."""
    return {
        "timeline": timeline,
        **{f"created {topic}": moment for topic, moment in sorted(created_us.items())},
        **{f"{_LATEST}{topic}": moment for topic, moment in sorted((latest_us or {}).items())},
    }


def with_beginning(end: Json, begin: Json) -> Json:
    """Return the end of a query's first batch, with the beginning in its mark."""
    marked = {
        f"{_BEGIN}{topic}/{partition_id}": offset
        for topic, partitions in begin.items()
        if topic != _MARK
        for partition_id, offset in partitions.items()
    }
    marked |= {f"{_BEGIN}{_LATEST}{topic}": us for topic, us in latest_in(begin).items()}
    return {**end, _MARK: {**end.get(_MARK, {}), **marked}}


def beginning_in(end: Json) -> Json | None:
    """Return the beginning that the end of a first batch has; None: it is of another batch."""
    found: Json = {}
    marked = dict(end.get(_MARK, {}))
    for name, value in end.get(_MARK, {}).items():
        of_begin = name.removeprefix(_BEGIN)
        if of_begin == name:
            continue
        if of_begin.startswith(_LATEST):
            marked[of_begin] = value
            continue
        topic, _, partition_id = of_begin.rpartition("/")
        found.setdefault(topic, {})[partition_id] = value
    return {_MARK: marked, **found} if found else None


def to_json(
    offsets: Mapping[str, Mapping[int, int]], marked: Mapping[str, int] | None = None
) -> Json:
    """Return offsets as Spark stores them; always in the same order, as Spark compares the text."""
    return ({} if marked is None else {_MARK: dict(marked)}) | {
        topic: {str(partition_id): offsets[topic][partition_id] for partition_id in sorted(parts)}
        for topic, parts in sorted(offsets.items())
    }


def count(start: Mapping[str, Mapping[int, int]], end: Mapping[str, Mapping[int, int]]) -> int:
    """Return how many events lie between two places; one that `start` lacks counts from 1."""
    return sum(
        max(0, offset - start.get(topic, {}).get(partition_id, 1))
        for topic, partitions in end.items()
        for partition_id, offset in partitions.items()
    )
