"""A primary and the standby that follows it, with the schema of gapless in both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection

from gapless.db.migrate import migrate
from gapless.features.server.postgres.cluster import Cluster
from gapless.features.server.server import throwaway_cluster
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic
from support.servers import until
from support.standby import follow


@dataclass
class Pair:
    """A primary, and the standby that follows it."""

    primary: Cluster
    standby: Cluster
    topic: str = "t"

    def on_primary(self) -> Connection[Any]:
        return psycopg.connect(self.primary.dsn(), autocommit=True)

    def on_standby(self) -> Connection[Any]:
        return psycopg.connect(self.standby.dsn(), autocommit=True)

    def publish(self, count: int, payload: object = None, *, given: bool = True) -> None:
        """Publish so many events; `given`: with offsets, which the standby has then, too."""
        with self.on_primary() as conn:
            events = [NewEvent(payload=payload, key=str(n)) for n in range(count)]
            publish(conn, self.topic, events)
            if given:
                sequence(conn)
        if given:
            self.replay()

    def whole(self, cluster: Cluster | None = None) -> list[tuple[int, int]]:
        """The places of the topic, by the log itself: the primary's, unless another is named."""
        with psycopg.connect((cluster or self.primary).dsn()) as conn:
            return conn.execute(
                "select s.partition_id, o from gapless.log_segment s"
                " join gapless.topic t using (topic_id),"
                " generate_series(s.base_offset, s.last_offset) o where t.name = %s order by 1, 2",
                [self.topic],
            ).fetchall()

    def replay(self) -> None:
        """Wait until the standby has all that the primary has."""
        with self.on_primary() as primary, self.on_standby() as standby:
            ((lsn,),) = primary.execute("select pg_current_wal_flush_lsn()::text").fetchall()
            there = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
            assert until(lambda: standby.execute(there, [lsn]).fetchone() == (True,))

    def pause(self) -> None:
        """Let the standby lag from now on."""
        with self.on_standby() as conn:
            conn.execute("select pg_wal_replay_pause()")
            state = "select pg_get_wal_replay_pause_state()"
            assert until(lambda: conn.execute(state).fetchone() == ("paused",))

    def resume(self) -> None:
        with self.on_standby() as conn:
            conn.execute("select pg_wal_replay_resume()")


@contextmanager
def following() -> Iterator[Pair]:
    """Start both, with the topic `t` of two partitions; the standby never waits for its readers."""
    with throwaway_cluster({"autovacuum": "off"}) as primary:
        with psycopg.connect(primary.dsn(), autocommit=True) as conn:
            migrate(conn)
            create_chunks(conn)
            ensure_topic(conn, "t", partitions=2)
        primary.stop("fast")
        standby = follow(primary, {"max_standby_streaming_delay": "0"})
        try:
            yield Pair(primary, standby)
        finally:
            standby.stop("immediate")
