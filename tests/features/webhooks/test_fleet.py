"""Supervisors that deliver: webhooks come and go without a restart, processes are killed, nothing is lost."""

import os
from signal import SIGKILL, SIGTERM

import psycopg
import pytest
from psycopg import Connection

from features.webhooks.started import Start, _ids_are_stable, _until, require_recorded, start
from gapless.features.webhooks.ops import (
    list_attempts,
    list_webhooks,
    remove_webhook,
)
from support.endpoint import Reply, Server, workers_of
from support.patience import bounded_patience
from support.shared_webhooks import add_own, publish_each_alone

__all__ = ["start"]  # fixtures

pytestmark = [pytest.mark.slow, pytest.mark.chaos]

EVENTS = 60


def _publish(conn: Connection, numbers: range) -> None:
    for number in numbers:
        publish_each_alone(conn, number, key=str(number % 7))


def _came(server: Server, path: str) -> set[int]:
    return {call.json["events"][0]["data"] for call in server.of(path)}


def _left(conn: Connection, name: str) -> int:
    (found,) = [each for each in list_webhooks(conn) if each.name == name]
    return found.lag + found.waiting


@pytest.mark.long
def test_every_event_arrives_with_one_id_whatever_is_killed(
    conn: Connection, server: Server, start: Start
) -> None:
    """A webhook is added while supervisors run; workers and a supervisor are killed, one is down.

    Each recorded attempt was a call, and the supervisor that ends in order leaves none out.
    """
    one, two = start(), start()
    _until(
        lambda: conn.execute("select count(*) from gapless.member").fetchone() == (2,),
        "two supervisors without a webhook",
    )
    add_own(conn, server, "good", retry_delays_s=[1] * 50)
    add_own(conn, server, "down", retry_delays_s=[1] * 50)
    failing = iter(range(40))
    server.answer = lambda call: (
        Reply(503)
        if call.path == "/down" or (len(server.calls) % 3 == 0 and next(failing, None) is not None)
        else Reply(wait_s=0.01)
    )
    _publish(conn, range(EVENTS // 3))
    _until(lambda: len(_came(server, "/good")) > 5, "it is followed without a restart")
    for pid in workers_of("webhook-good"):
        os.kill(pid, SIGKILL)
    _publish(conn, range(EVENTS // 3, 2 * EVENTS // 3))
    _until(lambda: len(_came(server, "/good")) > EVENTS // 3, "workers are replaced")
    one.kill()
    _publish(conn, range(2 * EVENTS // 3, EVENTS))
    _until(lambda: _came(server, "/good") == set(range(EVENTS)), "every event arrives")
    _until(lambda: _left(conn, "good") == 0, "nothing is left to deliver")
    assert _ids_are_stable(server, "/good")
    _publish(conn, range(EVENTS, EVENTS + 7))  # by the last supervisor, which ends in order
    _until(lambda: _came(server, "/good") == set(range(EVENTS + 7)), "the last ones arrive")
    down, good = list_webhooks(conn)
    assert (good.dead, good.is_run) == (0, True)
    assert down.circuit_open_since is not None
    assert down.lag + down.waiting >= EVENTS  # one set aside before those ahead of it is in both
    two.send_signal(SIGTERM)
    assert two.wait(bounded_patience(40.0)) == 0
    require_recorded(conn, server, "good", set(range(EVENTS, EVENTS + 7)))
    assert {each.status for each in list_attempts(conn, "down")} == {503}


@pytest.mark.long
def test_a_removed_one_is_forgotten_and_a_changed_one_is_called_elsewhere(
    conn: Connection, server: Server, start: Start
) -> None:
    add_own(conn, server, "a", retry_delays_s=[1] * 50)
    add_own(conn, server, "b", retry_delays_s=[1] * 50)
    process = start()
    _publish(conn, range(3))
    _until(lambda: _came(server, "/b") == {0, 1, 2}, "delivered")
    assert remove_webhook(conn, "a", wait_s=bounded_patience(30.0))
    for table in ("webhook", "webhook_attempt"):
        left = conn.execute(f"select distinct name from gapless.{table}").fetchall()
        assert set(left) <= {("b",)}, table
    groups = conn.execute("select distinct group_id from gapless.consumer_group").fetchall()
    assert groups == [("webhook-b",)]
    add_own(conn, server, "b", url=f"{server.url}/new", concurrency=2)
    _publish(conn, range(3, 6))
    _until(lambda: _came(server, "/b") | _came(server, "/new") == set(range(6)), "all arrive")
    _until(lambda: bool(_publish(conn, range(6, 7)) or _came(server, "/new")), "the new URL holds")
    process.send_signal(SIGTERM)
    assert process.wait(bounded_patience(40.0)) == 0
    assert isinstance(conn, psycopg.Connection)


@pytest.mark.long
def test_one_that_may_not_be_called_is_tried_less_and_less(
    conn: Connection, server: Server, start: Start
) -> None:
    add_own(conn, server, "shop", url="http://10.0.0.1/hook")
    start()
    _publish(conn, range(1))
    tried = "select from gapless.leases where substring(error, 'private.*attempt (\\d+)')::int > 3"
    _until(lambda: conn.execute(tried).fetchone() is not None, "its attempts are counted")
