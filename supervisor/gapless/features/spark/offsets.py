"""Places in the log as Spark keeps them: the next offset to read, by topic and partition.

The JSON is Kafka's: {"orders": {"0": 1001, "1": 1}}; -2 is earliest and -1 latest. A stream's place
has {"": {"timeline": 2}} beside its topics: the timeline of the log that it has read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gapless.errors import UsageError

EARLIEST = -2
LATEST = -1
_MARK = ""  # no topic has this name

# By topic, by partition: the next offset to read.
Offsets = dict[str, dict[int, int]]
Json = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPosition:
    """A place that an option names: one of the ends, a group's position, or offsets."""

    kind: Literal["earliest", "latest", "group", "offsets"]
    group_id: str = ""
    offsets: Mapping[str, Mapping[int, int]] | None = None


def parse_place(option: str, text: str | None) -> StartPosition | None:
    """Parse `earliest`, `latest`, `group:NAME` or JSON; None for None."""
    if text is None:
        return None
    word = text.strip()
    if word.lower() == "earliest":
        return StartPosition(kind="earliest")
    if word.lower() == "latest":
        return StartPosition(kind="latest")
    if word.startswith("group:"):
        return StartPosition(kind="group", group_id=word.removeprefix("group:"))
    if not word.startswith("{"):
        raise UsageError(
            f'{option} {word!r}: earliest, latest, group:NAME or JSON like {{"orders": {{"0": 1}}}}'
        )
    try:
        return StartPosition(kind="offsets", offsets=from_json(json.loads(word)))
    except (ValueError, TypeError, AttributeError):
        raise UsageError(
            f'{option} is not JSON like {{"orders": {{"0": 23, "1": -2}}}}: {word[:100]}'
        ) from None


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


def to_json(offsets: Mapping[str, Mapping[int, int]], timeline: int | None = None) -> Json:
    """Return offsets as Spark stores them; always in the same order, as Spark compares the text."""
    mark = {} if timeline is None else {_MARK: {"timeline": timeline}}
    return mark | {
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
