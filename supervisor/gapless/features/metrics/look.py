"""One look at the database for metrics and health: one read-only transaction, one round trip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any
from uuid import UUID

from psycopg import Connection

from gapless.db.queries import query
from gapless.status.look import ask, one_of
from gapless.status.section import Measured, sections
from gapless.status.snapshot import Pending, Sequencing, Server

Key = tuple[str, str, int]
"""A partition of a group: topic, group, partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStanding:
    """The standing of a group in a partition; lag_s is None when the next event is missing."""

    group_id: str
    topic: str
    partition_id: int
    owner_id: UUID | None
    is_paused: bool
    next_offset: int
    lag: int
    lag_s: float | None
    error: str | None

    @property
    def key(self) -> Key:
        return (self.topic, self.group_id, self.partition_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEnds:
    """The newest offset of each partition of a topic, in the order of their numbers."""

    topic: str
    last_offsets: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterCount:
    """Units that a group has set aside in a topic, in one state."""

    group_id: str
    topic: str
    state: str
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkState:
    """The number of chunks; held_s: seconds for which a group that is behind keeps the oldest."""

    chunks: int
    held_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLook:
    """The state of the database at one moment; standstill_s by partition.

    measured: the metrics of features.
    """

    standings: Sequence[GroupStanding]
    ends: Sequence[TopicEnds]
    letters: Sequence[LetterCount]
    pending: Sequence[Pending]
    chunks: ChunkState
    measured: Measured
    sequencer: Sequencing
    server: Server
    standstill_s: Mapping[Key, float]


class Standstill:
    """The time that each partition has had events and passed none, from look to look (pure)."""

    def __init__(self) -> None:
        self._since: dict[Key, tuple[int, float]] = {}  # the offset, and since when (monotonic)

    def add(self, standings: Sequence[GroupStanding], now_s: float) -> dict[Key, float]:
        """Return the seconds for each partition; 0 without events, and while it is paused."""
        before, self._since = self._since, {}
        found = {}
        for each in standings:
            offset, since_s = before.get(each.key, (0, now_s))
            if each.next_offset != offset or not each.lag or each.is_paused:
                since_s = now_s
            self._since[each.key] = each.next_offset, since_s
            found[each.key] = now_s - since_s
        return found


def take_look(conn: Connection[Any], standstill: Standstill) -> DatabaseLook:
    """Look at groups, topics, sequencer and server as of one moment.

    Before: `conn` is in autocommit, outside a transaction. After: the same; nothing was written.
    Bound: 5 s on the server (statement_timeout), 1 s behind a lock; psycopg.Error beyond that.
    """
    with conn.pipeline(), conn.transaction():
        conn.execute(query("status", "one_look"))
        conn.execute(query("status", "bounds"))
        server = ask(conn, query("status", "server"), Server)
        sequencer = ask(conn, query("status", "sequencer"), Sequencing)
        ends = ask(conn, query("observe", "ends"), TopicEnds)
        chunks = ask(conn, query("observe", "chunks"), ChunkState)
        conn.execute(query("status", "by_index"))
        standings = ask(conn, query("observe", "standings"), GroupStanding)
        letters = ask(conn, query("observe", "letters"), LetterCount)
        pending = ask(conn, query("status", "pending"), Pending)
        of_features = [
            (each.metrics, ask(conn, query(*each.query), each.record))
            for each in sections()
            if each.metrics is not None
        ]
        found = standings.fetchall()
        one = one_of(sequencer)
        return DatabaseLook(
            standings=found,
            ends=ends.fetchall(),
            letters=letters.fetchall(),
            # Snapshots of another cluster cannot be compared here.
            pending=[] if one.needs_rebase else pending.fetchall(),
            chunks=one_of(chunks),
            measured={
                name: values
                for metrics, cursor in of_features
                for name, values in metrics(cursor.fetchall()).items()
            },
            sequencer=one,
            server=one_of(server),
            standstill_s=standstill.add(found, monotonic()),
        )
