"""Clients of an ordered group, each of them nothing but a token and calls of SQL functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.rows import namedtuple_row

from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic

GROUP = "billing"


@dataclass
class Clients:
    """Group billing of topic orders, and what clients of it say to the database."""

    conn: Connection[Any]
    topic: Topic

    def publish(self, *units: list[str] | str) -> None:
        """Publish units: each a key, or the keys of its events."""
        for keys in units:
            with self.conn.transaction():
                for key in [keys] if isinstance(keys, str) else keys:
                    publish(self.conn, self.topic.name, NewEvent(payload={"key": key}, key=key))
        sequence(self.conn)

    def join(self, ttl: str = "1 h", **more: Any) -> Client:
        given = {"group_id": GROUP, "topic": self.topic.name, "ttl": ttl, **more}
        named = ", ".join(f"{name} => %({name})s" for name in given)
        (row,) = self.rows(f"select * from gapless.join({named})", given)
        return Client(self, row.token, str(row.member_id))

    def rows(self, text: str, params: Any = None) -> list[Any]:
        with self.conn.cursor(row_factory=namedtuple_row) as cursor:
            return cursor.execute(text, params).fetchall()

    def one(self, text: str, params: Any = None) -> Any:
        return self.rows(text, params)[0][0]

    def next_offset(self, partition: int = 0) -> int:
        return int(
            self.one(
                "select next_offset from gapless.consumer_offsets where group_id = %s"
                " and partition_id = %s",
                [GROUP, partition],
            )
        )

    def expire(self, client: Client) -> None:
        """Let its deadline be past, as after a server that has been up for long."""
        self.conn.execute(
            "update gapless.member set expires_at = clock_timestamp() - interval '1 s',"
            " ttl = interval '1 ms' where member_id = %s",
            [client.member_id],
        )


@dataclass
class Client:
    """One member."""

    clients: Clients
    token: str
    member_id: str
    seen: list[Any] = field(default_factory=list)

    def poll(self, max_events: int = 100, partitions: list[int] | None = None) -> list[Any]:
        return self.clients.rows(
            "select * from gapless.poll(%s, %s, %s)", [self.token, max_events, partitions]
        )

    def offsets(self, max_events: int = 100, partitions: list[int] | None = None) -> list[int]:
        return [each.c_offset for each in self.poll(max_events, partitions)]

    def commit(self, partition: int, next_offset: int) -> bool:
        return bool(
            self.clients.one(
                "select gapless.commit(%s, %s, %s)", [self.token, partition, next_offset]
            )
        )

    def commit_redriven(self, partition: int, first_offset: int) -> None:
        self.clients.rows(
            "select gapless.commit_redriven(%s, %s, %s)", [self.token, partition, first_offset]
        )

    def reject(self, partition: int, first_offset: int, reason: str = "bad") -> None:
        self.clients.rows(
            "select gapless.reject_unit(%s, %s, %s, %s)",
            [self.token, partition, first_offset, reason],
        )

    def heartbeat(self) -> Any:
        return self.clients.rows("select * from gapless.heartbeat(%s)", [self.token])[0]

    def leave(self) -> bool:
        return bool(self.clients.one("select gapless.leave(%s)", [self.token]))


@contextmanager
def refused(state: str) -> Iterator[None]:
    """Expect an error of that SQLSTATE."""
    with pytest.raises(psycopg.Error) as caught:
        yield
    assert caught.value.sqlstate == state, caught.value


@pytest.fixture
def clients(conn: Connection) -> Clients:
    topic = ensure_topic(conn, "orders", partitions=1)
    conn.execute("select gapless.create_group(%s, 'orders')", [GROUP])
    return Clients(conn, topic)
