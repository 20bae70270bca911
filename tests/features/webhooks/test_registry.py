"""Webhooks in the database: who may add one, what is refused, what is left when it is removed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.features.webhooks.ops import (
    add_webhook,
    list_webhooks,
    pause_webhook,
    remove_webhook,
    show_webhook,
)
from gapless.log.topics import Topic
from support.blocked import until_blocked
from support.patience import patience

URL = "https://shop.example/hooks"


def _add(conn: Connection, name: str = "shop", **options: Any) -> bool:
    said = {"topic": "outbox", "url": URL, "secrets": ["env:HOOK"], **options}
    return add_webhook(conn, name, said.pop("topic"), said.pop("url"), **said)


@pytest.mark.long
def test_only_an_operator_adds_and_a_consumer_delivers(
    conn: Connection, topic: Topic, role: Callable[..., str]
) -> None:
    with connect(role("gapless_operator"), role="test") as operator:
        assert _add(operator)
    with connect(role("gapless_consumer"), role="test") as consumer:
        assert len(list_webhooks(consumer)) == 1
        for change in (
            _add,
            lambda c: pause_webhook(c, "shop"),
            lambda c: remove_webhook(c, "shop"),
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                change(consumer)
        consumer.execute("select gapless.note_webhook('shop', 1, 2, 'why', true)")
        assert consumer.execute("select gapless.purge_webhooks()").fetchone() == (0,)
    with connect(role("gapless_producer"), role="test") as producer:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            producer.execute("select gapless.stop_webhook('shop', 'x')")
    found = show_webhook(conn, "shop")
    assert (found.delivered, found.failed, found.last_error) == (1, 2, "why")


def test_one_that_is_closed_meanwhile_is_not_probed(
    dsn: str, conn: Connection, topic: Topic
) -> None:
    """Another probe had a success; who waits for its row must not note one of its own."""
    _add(conn)
    conn.execute("select gapless.note_webhook('shop', 0, 10, 'why', true)")
    probe = b"select gapless.probe_webhook('shop', '0')"
    with (
        connect(dsn, role="asker") as asker,
        psycopg.connect(dsn) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        other.execute("update gapless.webhook_state set circuit_ts = null, probe_ts = null")
        future = pool.submit(lambda: asker.execute(probe).fetchone())
        until_blocked(conn, asker, future)
        other.commit()
        assert future.result(patience(10.0)) == ("wait",)
    assert conn.execute("select probe_ts from gapless.webhook_state").fetchone() == (None,)
