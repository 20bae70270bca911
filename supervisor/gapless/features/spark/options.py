"""The options of `format("gapless")`: names, kinds, defaults; the Kafka source's, verbatim.

An unknown name is refused: a misspelt `startingOffsets` would silently read something else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from gapless.db.schema import use_schema
from gapless.errors import UsageError
from gapless.features.spark.columns import parse_columns
from gapless.features.spark.offsets import StartPosition, parse_place
from gapless.log.filter import ALL, Filter, filter_of
from gapless.settings import environment_schema

_DURATION = re.compile(r"\s*(\d+)\s*(ms|s|m|h)\s*", re.IGNORECASE)
_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}

# Names that Spark itself puts among the options, or gives a meaning of its own.
_OF_SPARK = {"path", "checkpointlocation", "queryname", "name"}
_CONNECTION = ("url", "dsn", "service", "schema")
_READ = (
    *_CONNECTION,
    "primaryUrl",
    "subscribe",
    "topic",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "recordsPerTask",
    "columns",
    "partitions",
    "eventTypes",
    "where",
    "params",
    "valueFormat",
    "failOnDataLoss",
    "groupId",
    "archive",
)
_TIMESTAMPS = ("startingTimestamp", "endingTimestamp")
_WRITE = (*_CONNECTION, "topic", "writeId")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a reader.

    assigned: the partitions of each topic that are read; None is all of them. where, params: a
    condition over the payload, and a value for each of its variables, as JSON. starting,
    ending: places in the log; None is the default, which batch and stream decide.
    records_per_task: the maximum of events in a Spark task; min_partitions: the minimum of tasks.
    primary_dsn: the server to write to while dsn names a standby; None: nothing is written.
    identity: the database that the driver has reached (reach.py); None: none yet.
    """

    dsn: str = field(repr=False)
    topics: tuple[str, ...]
    assigned: Mapping[str, tuple[int, ...]] | None
    partitions: tuple[int, ...] | None
    starting: StartPosition | None
    ending: StartPosition | None
    starting_ts: datetime | None
    ending_ts: datetime | None
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_ms: int
    min_partitions: int
    records_per_task: int
    columns: tuple[str, ...]
    event_types: tuple[str, ...] | None
    where: str | None
    params: str
    binary_value: bool
    fail_on_data_loss: bool
    group_id: str | None
    archive: str | None
    primary_dsn: str | None = field(default=None, repr=False)
    identity: str | None = None

    def wants(self, topic: str, partition_id: int) -> bool:
        """Tell whether a partition is among those to be read."""
        if self.partitions is not None and partition_id not in self.partitions:
            return False
        return self.assigned is None or partition_id in self.assigned.get(topic, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a writer; `topic` may be a column, too. write_id: sink.py; identity: above."""

    dsn: str = field(repr=False)
    topic: str | None
    write_id: str | None
    identity: str | None = None


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Check and parse the options of a reader. Raises UsageError in one sentence."""
    options = _known(given, _READ)
    topics, assigned = _topics(options)
    timestamps = {name: _timestamp(options, name) for name in _TIMESTAMPS}
    for name, offsets in zip(_TIMESTAMPS, ("startingOffsets", "endingOffsets"), strict=True):
        if timestamps[name] is not None and offsets.lower() in options:
            raise UsageError(f"give {name} or {offsets}, not both")
    starting = parse_place("startingOffsets", options.get("startingoffsets"))
    ending = parse_place("endingOffsets", options.get("endingoffsets"))
    if (starting, ending) == (StartPosition(kind="latest"), StartPosition(kind="earliest")):
        raise UsageError("startingOffsets latest to endingOffsets earliest is the wrong way round")
    first, last = timestamps.values()
    if first is not None and last is not None and first > last:
        raise UsageError("startingTimestamp is later than endingTimestamp")
    condition = _condition(options)
    value_format = options.get("valueformat", "string")
    if value_format not in ("string", "binary"):
        raise UsageError(f"valueFormat {value_format!r}: string or binary")
    return ReadOptions(
        dsn=_dsn(options),
        topics=topics,
        assigned=assigned,
        partitions=_numbers(options, "partitions"),
        starting=starting,
        ending=ending,
        starting_ts=timestamps["startingTimestamp"],
        ending_ts=timestamps["endingTimestamp"],
        max_offsets=_whole(options, "maxOffsetsPerTrigger"),
        min_offsets=_whole(options, "minOffsetsPerTrigger"),
        max_trigger_delay_ms=_duration_ms(options.get("maxtriggerdelay", "15m")),
        min_partitions=_whole(options, "minPartitions") or 1,
        records_per_task=_whole(options, "recordsPerTask") or 100_000,
        columns=parse_columns(options.get("columns")),
        event_types=_words(options.get("eventtypes")),
        where=condition.where,
        params=condition.params,
        binary_value=value_format == "binary",
        fail_on_data_loss=_boolean(options, "failOnDataLoss", default=True),
        group_id=options.get("groupid"),
        archive=options.get("archive"),
        primary_dsn=options.get("primaryurl", "").removeprefix("jdbc:") or None,
    )


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Check and parse the options of a writer. Raises UsageError in one sentence."""
    options = _known(given, _WRITE)
    return WriteOptions(
        dsn=_dsn(options), topic=options.get("topic"), write_id=options.get("writeid")
    )


def _known(given: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """Return the options by their names in lower case: Spark does not keep the case."""
    options = {name.lower(): str(value) for name, value in given.items()}
    _work_in(options.get("schema"))
    known = {name.lower(): name for name in names}
    for name in options:
        if name not in known and name not in _OF_SPARK:
            close = get_close_matches(name, known, n=1)
            meant = f"; did you mean {known[close[0]]}?" if close else f": {', '.join(names)}"
            raise UsageError(f"there is no option {name!r} here{meant}")
    return options


def _work_in(schema: str | None) -> None:
    """Let this process work in the schema of the option; tasks receive it (reach.py)."""
    if schema is not None:
        use_schema(environment_schema({**os.environ, "GAPLESS_SCHEMA": schema}))


def _dsn(options: Mapping[str, str]) -> str:
    if _has_password(options.get("dsn", "")):
        raise UsageError(
            "option dsn: Spark shows it, its password too, in its UI and event log: write it as "
            "url, which Spark redacts, or leave the password to GAPLESS_DSN, a passfile or a "
            "service"
        )
    if "service" in options:
        return f"service={options['service']}"
    for dsn in (options.get("url"), options.get("dsn"), os.environ.get("GAPLESS_DSN")):
        if dsn:
            return dsn.removeprefix("jdbc:")
    if os.environ.get("PGHOST") or os.environ.get("PGSERVICE"):
        return ""
    raise UsageError(
        "which database? Set GAPLESS_DSN where the driver runs, or the option url (or service)"
    )


def _has_password(dsn: str) -> bool:
    try:
        return "password" in conninfo_to_dict(dsn.removeprefix("jdbc:"))
    except ProgrammingError:
        return True  # an unreadable text may contain one


def _topics(
    options: Mapping[str, str],
) -> tuple[tuple[str, ...], dict[str, tuple[int, ...]] | None]:
    said = [name for name in ("subscribe", "topic", "assign") if name in options]
    if len(said) != 1:
        raise UsageError('which topics? Give subscribe ("orders,payments") or assign, one of them')
    if said[0] != "assign":
        topics = _words(options[said[0]])
        if not topics:
            raise UsageError(f"{said[0]} is empty: name a topic, or some: orders,payments")
        return topics, None
    try:
        read: Any = json.loads(options["assign"])
        assigned = {str(topic): tuple(int(p) for p in parts) for topic, parts in read.items()}
    except (ValueError, TypeError, AttributeError):
        raise UsageError(
            f'assign is not what it should be, {{"orders": [0, 1]}}: {options["assign"]}'
        ) from None
    return tuple(assigned), assigned


def _words(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _condition(options: Mapping[str, str]) -> Filter:
    """Return the condition of where and params; the database checks whether it is a jsonpath."""
    params: Any = None
    if "params" in options:
        try:
            params = json.loads(options["params"])
        except ValueError as error:
            raise UsageError(f"params is not JSON: {error}") from None
    condition = filter_of(None, options.get("where"), params) or ALL
    if condition.where is not None and "archive" in options:
        raise UsageError("where asks the database, and an archive is files: leave one of them out")
    return condition


def _numbers(options: Mapping[str, str], name: str) -> tuple[int, ...] | None:
    words = _words(options.get(name.lower()))
    if words is None:
        return None
    if not all(word.isascii() and word.isdigit() for word in words):
        raise UsageError(f"{name} {options[name.lower()]!r}: numbers of partitions, such as 0,3")
    return tuple(int(word) for word in words)


def _whole(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) < 2**53):
        raise UsageError(f"{name} {text!r}: a whole number, 1 or more")
    return int(text)


def _boolean(options: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = options.get(name.lower(), str(default)).lower()
    if text not in ("true", "false"):
        raise UsageError(f"{name} {text!r}: true or false")
    return text == "true"


def _duration_ms(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"maxTriggerDelay {text!r}: a number with ms, s, m or h, such as 15m")
    return int(match[1]) * _MS[match[2].lower()]


def _timestamp(options: Mapping[str, str], name: str) -> datetime | None:
    """Read milliseconds since 1970, as for Kafka, or ISO 8601; without a time zone it is UTC."""
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        if text.strip().isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        moment = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{name} {text!r}: milliseconds since 1970, or 2026-01-31T12:00:00+00:00"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
