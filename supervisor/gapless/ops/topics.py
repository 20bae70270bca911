"""Topics: list them, show one, change one; and events of ids that have no topic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from psycopg.pq import TransactionStatus

from gapless import feature
from gapless.db.queries import query
from gapless.errors import UsageError
from gapless.features.retention.chunks import Retention, set_retention
from gapless.log.topics import (
    create_topic,
    find_topic,
    require_topic,
    set_dedupe_window,
    set_partitions,
)
from gapless.ops.rows import require_autocommit, row, rows
from gapless.ops.text import ONLY_JSON, age_text, quantity

if TYPE_CHECKING:
    from psycopg import Connection

    from gapless.log.topics import Topic
    from gapless.settings import Loaded

__all__ = [
    "AlteredTopic", "TopicChange", "TopicInfo", "TopicPartition", "UnroutedId", "alter_topic",
    "list_changes", "list_topics", "list_unrouted", "show_topic",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic; events: those in the log; groups: the number of groups that consume it.

    retention_s: the time that it keeps its events, at least, in seconds; None is forever.
    retention: the same in words. dedupe_window: the time that it remembers dedupe keys, in words.
    direct: whether it takes messages for one group. compacted: whether it keeps the newest event
    of each key. archive, overrun: as in ops.Retention.
    """

    topic: str
    partitions: int
    events: int
    groups: int
    retention: str
    dedupe_window: str
    retention_s: float | None = field(metadata=ONLY_JSON)
    direct: bool = field(metadata=ONLY_JSON)
    compacted: bool = field(metadata=ONLY_JSON)
    archive: str | None = field(metadata=ONLY_JSON)
    overrun: Sequence[str] = field(metadata=ONLY_JSON)
    created: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition:
    """A partition. log_start_offset: the oldest offset; log_end_offset: the offset given next.

    about_bytes: an estimate of its room on disk without indexes, by the mean size of the newest
    events of the topic. state: active, or old for a partition from before the number was lowered.
    """

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    events: int
    about_bytes: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """A group that has yet to finish events of an earlier number of partitions.

    partitions_before: partitions the topic had; partitions: it has. unfinished: the partitions
    that contain the events.
    """

    group: str
    topic: str
    partitions_before: int
    partitions: int
    unfinished: Sequence[int]
    events: int

    def __str__(self) -> str:
        return (
            f"topic {self.topic}, group {self.group}: from {self.partitions_before} to "
            f"{quantity(self.partitions, 'partition')}, "
            f"{quantity(self.events, 'event')} to finish first "
            f"in partitions {', '.join(map(str, self.unfinished))}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnroutedId:
    """Events of an id that has no topic, and since when; id 0: of all further ids."""

    topic_id: int
    events: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredTopic:
    """The values of a topic that were changed; the others are None.

    partitions_before: partitions it had. changes: groups that finish the events in those before
    they continue.
    """

    topic: str
    retention: Retention | None = None
    dedupe_window_s: float | None = None
    direct: bool | None = None
    compact: bool | None = None
    partitions_before: int | None = None
    partitions: int | None = None
    changes: Sequence[TopicChange] = ()

    def __str__(self) -> str:
        lines = []
        if (kept := self.retention) is not None:
            lines.append(
                "keeps its events "
                + ("forever" if kept.keep_s is None else f"for {age_text(kept.keep_s)}, at least")
                + (f", until pipeline {kept.archive} has archived them" if kept.archive else "")
                + (f", whatever {', '.join(kept.overrun)} have handled" if kept.overrun else "")
            )
        if self.dedupe_window_s is not None:
            lines.append(f"remembers dedupe keys for {age_text(self.dedupe_window_s)}")
        if self.direct:
            lines.append("takes direct messages (to_group)")
        if self.compact is not None:
            lines.append(
                "keeps the latest event of each key: gapless run takes in earlier events, too"
                if self.compact
                else "is not compacted any more: gapless run removes the kept events"
            )
        said = [f"topic {self.topic} {line}" for line in lines]
        return "\n".join(said + ([] if self.partitions is None else [self._partitions()]))

    def _partitions(self) -> str:
        now = f"topic {self.topic} has {quantity(self.partitions or 0, 'partition')}"
        if self.partitions_before == self.partitions:
            return f"nothing to do: {now}"
        return (
            f"{now} now, {self.partitions_before} before: events that are there are finished "
            "where they are, then the same keys continue in the new ones"
        )

    def record(self) -> dict[str, object]:
        """Return the changed values only."""
        said: dict[str, object] = {"topic": self.topic}
        if (kept := self.retention) is not None:
            said |= {
                "retention_s": kept.keep_s,
                "archive": kept.archive,
                "overrun": list(kept.overrun),
            }
        if self.dedupe_window_s is not None:
            said["dedupe_window_s"] = self.dedupe_window_s
        if self.direct is not None:
            said["direct"] = self.direct
        if self.compact is not None:
            said["compact"] = self.compact
        if self.partitions is not None:
            said |= {"partitions_before": self.partitions_before, "partitions": self.partitions}
        return said


def list_topics(conn: Connection[Any]) -> list[TopicInfo]:
    """Return all topics, by name."""
    return rows(conn, TopicInfo, query("cli", "topics"))


def show_topic(conn: Connection[Any], name: str) -> list[TopicPartition]:
    """Return the partitions of a topic. Raises RefusedError (GL404) when there is none."""
    require_topic(conn, name)
    return rows(conn, TopicPartition, query("cli", "topic_partitions"), topic=name)


def list_changes(conn: Connection[Any], topic: str | None = None) -> list[TopicChange]:
    """Return the groups that have yet to finish a change of partitions; None: of all topics."""
    return rows(conn, TopicChange, query("cli", "changes"), topic=topic)


def list_unrouted(conn: Connection[Any]) -> list[UnroutedId]:
    """Return the topic ids that have events and no topic; adopt_topic() makes one of an id."""
    return rows(conn, UnroutedId, query("cli", "unrouted"))


def ensure_as_configured(
    conn: Connection[Any], name: str, loaded: Loaded, window_s: int | None = None
) -> tuple[Topic, bool]:
    """Return a topic, and whether it was made just now: as configured, with this dedupe window.

    Raises UsageError, with both numbers, if the topic has another number of partitions than the
    configuration sets; the default sets none.
    """
    before = find_topic(conn, name)
    if before is not None and loaded.sources["totalPartitions"] == "default":
        return before, False
    settings = loaded.settings
    return create_topic(
        conn,
        name,
        partitions=settings.total_partitions,
        keep_s=settings.retention_s,
        dedupe_window_s=window_s,
    )


def alter_topic(  # noqa: PLR0913 - the settings of a topic
    conn: Connection[Any],
    name: str,
    *,
    partitions: int | None = None,
    retention: Retention | None = None,
    dedupe_window_s: float | None = None,
    direct: bool = False,
    compact: bool | None = None,
) -> AlteredTopic:
    """Change settings of a topic while everything runs; None: unchanged.

    Before: `conn` is in autocommit. partitions: 1 to 4096, more or fewer. retention: all of it
    (find_retention() returns the present one). dedupe_window_s: seconds, more than 0. direct: let
    it take messages for one group, which cannot be taken back; waits for the running batches.
    compact: keep the newest event of each key, or stop keeping it.
    Raises RefusedError for an unknown topic or a number out of bounds, UsageError for nothing to
    change, or for partitions with other settings in a transaction; changes before the error, in the
    order retention, window, direct, compact, partitions, stay.
    """
    require_autocommit(conn, "alter_topic()")
    said = (partitions, retention, dedupe_window_s, compact)
    if all(each is None for each in said) and not direct:
        raise UsageError(f"topic {name}: what is to change?")
    is_open = conn.info.transaction_status != TransactionStatus.IDLE
    if (
        is_open
        and partitions is not None
        and (direct or any(each is not None for each in said[1:]))
    ):
        raise UsageError(
            f"topic {name}: the number of partitions changes in a transaction of its own: change "
            "it alone"
        )
    before, changes = None, list[TopicChange]()
    if retention is not None:
        set_retention(conn, name, retention)
    if dedupe_window_s is not None:
        set_dedupe_window(conn, name, dedupe_window_s)
    if direct:
        require_topic(conn, name)
        row(conn, query("cli", "set_direct"), topic=name)
    if compact is not None:
        feature.switch("compact")(conn, name, compact)
    if partitions is not None:
        before = require_topic(conn, name).partitions
        partitions = set_partitions(conn, name, partitions).partitions
        changes = list_changes(conn, name)
    return AlteredTopic(
        topic=name,
        retention=retention,
        dedupe_window_s=dedupe_window_s,
        direct=True if direct else None,
        compact=compact,
        partitions_before=before,
        partitions=partitions,
        changes=changes,
    )
