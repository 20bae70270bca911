"""The options of `format("gapless")`: names, kinds, defaults; the Kafka source's, verbatim.

An unknown name is refused: a misspelt `startingOffsets` would silently read something else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from gapless.db.schema import use_schema
from gapless.errors import UsageError
from gapless.features.spark.columns import HEADERS, parse_columns
from gapless.features.spark.offsets import StartPosition, place_of, refuse_reversed
from gapless.features.spark.values import (
    boolean,
    duration_ms,
    format_of,
    numbers,
    some,
    whole,
    words,
)
from gapless.log.filter import ALL, Filter, filter_of
from gapless.settings import dereference, environment_schema, is_reference

# Names that Spark itself puts among the options, or gives a meaning of its own.
_OF_SPARK = {"path", "checkpointlocation", "queryname", "name"}
_CONNECTION = ("url", "dsn", "service", "schema")
_READ = (
    *_CONNECTION,
    "primaryUrl",
    "subscribe",
    "subscribePattern",
    "topic",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "recordsPerTask",
    "maxRecordsPerPartition",
    "columns",
    "partitions",
    "eventTypes",
    "where",
    "params",
    "keyFormat",
    "valueFormat",
    "includeHeaders",
    "failOnDataLoss",
    "groupId",
    "archive",
)
_TIMESTAMPS = ("startingTimestamp", "endingTimestamp")
_WRITE = (*_CONNECTION, "topic", "writeId")
# Options of Kafka's source that have another name here, or no meaning.
_KAFKAS = {
    "kafka.bootstrap.servers": "the database is named by url, or GAPLESS_DSN",
    "kafka.group.id": "groupId shows a stream's position as a group",
    "groupidprefix": "groupId shows a stream's position as a group",
    "startingoffsetsbytimestampstrategy": (
        "a partition without an event of that time or later begins at its end"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a reader.

    topics: none if there is a pattern, which matches whole names. assigned: the partitions of each
    topic that are read; None is all of them. where, params: a condition over the payload, and a
    value for each of its variables, as JSON. starting, ending: places in the log; None is the
    default, which batch and stream decide. formats: the Spark types that options give to columns.
    records_per_task: the maximum of events in a Spark task; min_partitions: the minimum of tasks.
    primary_dsn: the server to write to while dsn names a standby; None: nothing is written.
    identity: the database that the driver has reached (reach.py); None: none yet.
    """

    dsn: str = field(repr=False)
    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None
    assigned: Mapping[str, tuple[int, ...]] | None
    partitions: tuple[int, ...] | None
    starting: StartPosition | None
    ending: StartPosition | None
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_ms: int
    min_partitions: int
    records_per_task: int
    columns: tuple[str, ...]
    event_types: tuple[str, ...] | None
    where: str | None
    params: str
    formats: Mapping[str, str]
    fail_on_data_loss: bool
    group_id: str | None
    archive: str | None
    primary_dsn: str | None = field(default=None, repr=False)
    identity: str | None = None

    @property
    def takes_partitions(self) -> bool:
        """Whether every partition is among those to be read."""
        return self.partitions is None and self.assigned is None

    def reads(self, topic: str, *partition_ids: int) -> bool:
        """Tell whether partitions of a topic are among those to be read, if they exist."""
        named = topic in self.topics if self.pattern is None else self.pattern.fullmatch(topic)
        return bool(named) and all(self.wants(topic, each) for each in partition_ids)

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
    topics, pattern, assigned = _topics(options)
    starting, ending = place_of(options, "starting"), place_of(options, "ending")
    refuse_reversed(starting, ending)
    condition = _condition(options)
    return ReadOptions(
        dsn=_dsn(options),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        partitions=numbers(options, "partitions"),
        starting=starting,
        ending=ending,
        max_offsets=whole(options, "maxOffsetsPerTrigger"),
        min_offsets=whole(options, "minOffsetsPerTrigger"),
        max_trigger_delay_ms=duration_ms(options.get("maxtriggerdelay", "15m")),
        min_partitions=whole(options, "minPartitions") or 1,
        records_per_task=_records_per_task(options),
        columns=parse_columns(options.get("columns")),
        event_types=some(options, "eventTypes"),
        where=condition.where,
        params=condition.params,
        formats=_formats(options),
        fail_on_data_loss=boolean(options, "failOnDataLoss", default=True),
        group_id=options.get("groupid"),
        archive=options.get("archive"),
        primary_dsn=dereference(options.get("primaryurl", "")).removeprefix("jdbc:") or None,
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
        if name in _KAFKAS:
            raise UsageError(f"there is no option {name!r} here: {_KAFKAS[name]}")
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
            return dereference(dsn).removeprefix("jdbc:")
    if os.environ.get("PGHOST") or os.environ.get("PGSERVICE"):
        return ""
    raise UsageError(
        "which database? Set GAPLESS_DSN where the driver runs, or the option url (or service)"
    )


def _has_password(dsn: str) -> bool:
    try:
        return not is_reference(dsn) and "password" in conninfo_to_dict(dsn.removeprefix("jdbc:"))
    except ProgrammingError:
        return True  # an unreadable text may contain one


def _topics(
    options: Mapping[str, str],
) -> tuple[tuple[str, ...], re.Pattern[str] | None, dict[str, tuple[int, ...]] | None]:
    """Return the topics, or the pattern of their names, and the partitions of each."""
    names = ("subscribe", "subscribePattern", "topic", "assign")
    said = [name for name in names if name.lower() in options]
    if len(said) != 1:
        raise UsageError(
            'which topics? Give subscribe ("orders,payments"), subscribePattern ("orders[.].*") or '
            "assign, one of them"
        )
    text = options[said[0].lower()]
    if said[0] == "subscribePattern":
        return (), _pattern(text), None
    if said[0] != "assign":
        topics = words(text)
        if not topics:
            raise UsageError(f"{said[0]} is empty: name a topic, or some: orders,payments")
        return topics, None, None
    try:
        read: Any = json.loads(text)
        assigned = {str(topic): tuple(int(p) for p in parts) for topic, parts in read.items()}
    except (ValueError, TypeError, AttributeError):
        raise UsageError(f'assign is not what it should be, {{"orders": [0, 1]}}: {text}') from None
    if not assigned or not all(assigned.values()):
        raise UsageError(f"assign names no partition, or none of a topic: {text[:100]}")
    return tuple(assigned), None, assigned


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"subscribePattern {text!r} is no regular expression: {error}") from None


def _formats(options: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark types of the columns whose form options decide."""
    formats: dict[str, str] = {
        "key": format_of(options, "keyFormat"),
        "value": format_of(options, "valueFormat"),
    }
    if boolean(options, "includeHeaders", default=False):
        formats["headers"] = HEADERS
    return formats


def _records_per_task(options: Mapping[str, str]) -> int:
    """Return the maximum of events in a task: of the option here, or of Kafka's name for it."""
    ours, kafkas = whole(options, "recordsPerTask"), whole(options, "maxRecordsPerPartition")
    if ours is not None and kafkas is not None:
        raise UsageError("give recordsPerTask or maxRecordsPerPartition, not both: they are one")
    return ours or kafkas or 100_000


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
