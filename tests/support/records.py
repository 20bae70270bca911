"""Fixtures for tests of gapless.ops: a log with a group, and the same calls on the command line."""

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless.cli.main import main
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from gapless.ops.text import json_text
from gapless.testing import drain

Command = Callable[..., Any]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], dsn: str) -> Command:
    """Return a function that runs a command here with --json, and returns its output."""

    def run(*words: str) -> Any:
        assert main([*words, "--dsn", dsn, "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def orders(conn: Connection) -> None:
    """Ten events in the one partition of orders, and group billing at its beginning."""
    ensure_topic(conn, "orders", partitions=1)
    conn.execute("select gapless.create_group('billing', 'orders')")
    for n in range(10):
        publish(conn, "orders", n, key="a")
    sequence(conn)


@pytest.fixture
def refused(conn: Connection, dsn: str) -> None:
    """Set aside for group billing: a dead unit of two events, one that was handled, a dead one."""
    ensure_topic(conn, "orders", partitions=1)
    publish(conn, "orders", [NewEvent(payload=b'{"total": 1.10}', key="a", headers={"h": 1})] * 2)
    publish(conn, "orders", 1, key="b")
    publish(conn, "orders", 2, key="c", event_type="t")

    @gapless.handler(topic="orders", group="billing")
    def refuse(unit: gapless.Unit, conn: object) -> None:
        if next(iter(unit)).key != "b":
            raise ValueError("out of stock")

    drain(dsn, refuse)


def known(record: Any) -> Any:
    """Return the JSON that --json prints of a record, or of several."""
    plain = [asdict(each) for each in record] if isinstance(record, list) else asdict(record)
    return json.loads(json_text(plain))


def value(conn: Connection, statement: str, *params: object) -> Any:
    row = conn.execute(statement, params).fetchone()
    return None if row is None else row[0]
