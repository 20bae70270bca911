"""Webhooks of many topics, alone and shared, as rows."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect

OWN, SHARED, NEIGHBOUR = "orders-o1", "orders-s1", "orders-s2"


TABLES = (
    "webhook",
    "webhook_state",
    "subscription_stop",
    "group_pause",
    "consumer_group",
    "audit",
    "dead_letter",
)


SETUP = """
select gapless.create_topic(t, 2) from unnest('{other,orders}'::text[]) t;
select gapless.add_webhook(t || '-' || n, t, 'https://a.b/c', '{env:S}', shared => n like 's%')
from unnest('{other,orders}'::text[]) t, unnest('{o1,o2,s1,s2}'::text[]) n;
select gapless.create_group('g', 'orders');
select gapless.subscribe('g', 'orders', 'orders-s1', condition => '1 == 1');
"""


STOPS = (
    "select s.name, p.partition_id, p.reason, p.from_offset from gapless.subscription_stop p"
    " join gapless.subscription s using (subscription_id) order by 1, 2"
)


REMOVED = "update gapless.webhook set removed_ts = now() where name = %s"


class Hooks:
    """The webhooks, in one session; all that a test does is taken back."""

    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn
        conn.execute(SETUP)  # type: ignore[arg-type]

    def value(self, statement: str, *params: object) -> Any:
        row = self.conn.execute(statement, params).fetchone()  # type: ignore[arg-type]
        return None if row is None else row[0]

    def all(self, statement: str, *params: object) -> list[Any]:
        return self.conn.execute(statement, params).fetchall()  # type: ignore[arg-type]

    def rows(self) -> set[tuple[str, str]]:
        """All that any of the tables say."""
        return {
            (table, json.dumps(row, sort_keys=True))
            for table in TABLES
            for (row,) in self.all(f"select to_jsonb(t) from gapless.{table} t")
        }

    def circuits(self) -> dict[str, tuple[bool, bool]]:
        """Of those whose circuit is open, or that are probed, which of both."""
        query = (
            "select name, circuit_ts is not null, probe_ts is not null from gapless.webhook_state"
            " where circuit_ts is not null or probe_ts is not null"
        )
        return {name: (circuit, probe) for name, circuit, probe in self.all(query)}

    def stops(self) -> list[Any]:
        """Which are stopped in which partitions, and why."""
        return [row[:3] for row in self.all(STOPS)]


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[Hooks]:
    with connect(module_dsn, role="test") as conn:
        yield Hooks(conn)


@pytest.fixture
def world(shared: Hooks) -> Iterator[Hooks]:
    """The same at the begin of each test."""
    with shared.conn.transaction(force_rollback=True):
        yield shared
