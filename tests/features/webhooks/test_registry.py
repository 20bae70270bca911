"""Webhooks in the database: who may add one, what is refused, what is left when it is removed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.errors import RefusedError, UsageError
from gapless.features.webhooks.ops import (
    add_webhook,
    list_webhooks,
    pause_webhook,
    remove_webhook,
    resume_webhook,
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
def test_one_is_added_changed_paused_and_removed(conn: Connection, topic: Topic) -> None:
    assert _add(conn, event_types=["a.*"], rate=5)
    assert not _add(conn, secrets=["file:/run/new", "env:HOOK"])
    found = show_webhook(conn, "shop")
    assert (found.event_types, found.rate, found.is_run) == (None, None, False)
    assert found.secrets == ["file:/run/new", "env:HOOK"]
    assert pause_webhook(conn, "shop", reason="holiday")
    assert not pause_webhook(conn, "shop")
    assert show_webhook(conn, "shop").pause_reason == "holiday"
    assert resume_webhook(conn, "shop")
    assert not resume_webhook(conn, "shop")
    assert remove_webhook(conn, "shop")
    assert not remove_webhook(conn, "shop")
    assert list_webhooks(conn) == []
    for table in ("webhook", "webhook_state", "consumer_group", "group_filter"):
        row = conn.execute(f"select count(*) from gapless.{table}").fetchone()
        assert row == (0,), table
    actions = [row[0] for row in conn.execute("select action from gapless.audit order by audit_id")]
    assert actions.count("webhook") == 2
    assert "remove-webhook" in actions
    assert "hooks" not in str(conn.execute("select detail from gapless.audit").fetchall())


@pytest.mark.writes_nothing
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "a.b"}, "letters, digits, dashes and underscores"),
        ({"name": ""}, "letters, digits, dashes and underscores"),
        ({"name": "x" * 101}, "letters, digits, dashes and underscores"),
        ({"secrets": []}, "give one secret"),
        ({"secrets": ["env:A", "env:B", "env:C"]}, "give one secret"),
        ({"secrets": ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}, "given by where it is"),
        ({"secrets": ["env:"]}, "given by where it is"),
        ({"secrets": ["file:relative"]}, "given by where it is"),
        ({"rate": 0}, "rate is"),
        ({"rate": float("nan")}, "rate is"),
        ({"rate": float("inf")}, "rate is"),
        ({"rate": -1}, "rate is"),
        ({"concurrency": 0}, "concurrency is"),
        ({"concurrency": 1001}, "concurrency is"),
        ({"retry_delays_s": [-1]}, "retry_delays_s are"),
        ({"retry_delays_s": [1] * 101}, "retry_delays_s are"),
        ({"topic": "none"}, "none"),
        ({"start": "middle"}, "starts at earliest, latest or"),
        ({"url": "http://shop.example/"}, "https"),
        ({"url": "https://127.1/"}, "no address"),
        ({"event_types": []}, "event_types"),
        ({"where": "$ ? ("}, "where|jsonpath|condition"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(
    conn: Connection, topic: Topic, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says) as found:
        _add(conn, options.pop("name", "shop"), **options)
    assert "\n" not in str(found.value)
    assert "whsec_Mf" not in str(found.value)
    assert list_webhooks(conn) == []


@pytest.mark.parametrize("url", ["ftp://x/", "https://u@x/", "https://x/#f", "https://x y/", ""])
def test_the_database_refuses_it_too(conn: Connection, topic: Topic, url: str) -> None:
    with pytest.raises(psycopg.Error, match="give a URL"):
        conn.execute("select gapless.add_webhook('shop', 'outbox', %s, array['env:A'])", [url])


@pytest.mark.long
def test_another_topic_is_another_webhook(conn: Connection, topic: Topic) -> None:
    conn.execute("select gapless.create_topic('other', 1)")
    _add(conn)
    with pytest.raises(RefusedError, match="is of another topic") as found:
        _add(conn, topic="other")
    assert found.value.sqlstate == "GL409"
    with pytest.raises(RefusedError, match="there is no webhook"):
        pause_webhook(conn, "nobody")


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


def test_of_all_who_ask_one_may_probe(conn: Connection, topic: Topic) -> None:
    _add(conn)

    def asks(every: str = "1 hour") -> str:
        row = conn.execute("select gapless.probe_webhook('shop', %s::interval)", [every]).fetchone()
        assert row is not None
        return str(row[0])

    assert asks() == "closed"
    conn.execute("select gapless.note_webhook('shop', 0, 10, 'why', true)")
    assert asks() == "wait", "what opened it was a request"
    assert asks("0 s") == "probe"
    assert asks() == "wait"
    conn.execute("select gapless.note_webhook('shop', 1, 0, null, false)")
    assert asks() == "closed"


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
