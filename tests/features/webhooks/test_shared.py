"""Webhooks that share a group: each gets what it matched; it fails, waits and stops for itself alone."""

import asyncio
import threading

import pytest
from psycopg import Connection

from features.webhooks.started import keys_of_one_partition
from gapless.features.webhooks.line import PER_ENDPOINT
from gapless.features.webhooks.many import SharedDelivery
from gapless.features.webhooks.ops import (
    pause_webhook,
    remove_webhook,
    resume_webhook,
    try_webhook,
)
from gapless.log.publish import publish
from support.endpoint import Call, Reply, Server
from support.shared_webhooks import (
    GROUP,
    LOCAL,
    Deliver,
    add_shared,
    add_shop,
    letter_states,
    make_due,
    numbers_at,
    publish_each_alone,
    webhook_info,
)

EVENTS_BESIDE_A_SLOW_ONE = 240
HANGING = 12


def test_each_gets_what_it_matched_of_a_unit_and_all_share_one_group(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    add_shop(conn, server, "a", 1)
    add_shop(conn, server, "b", 2)
    add_shared(conn, server, "all")
    add_shared(conn, server, "typed", event_types=["order.*"])
    add_shared(conn, server, "large", where="$.n > $min", params={"min": 2})
    with conn.transaction():
        publish(conn, "outbox", {"n": 1, "shop": 1}, key="k", event_type="order.made")
        publish(conn, "outbox", {"n": 2, "shop": 2}, key="k", event_type="stock.made")
        publish(conn, "outbox", {"n": 3, "shop": 2}, key="k", event_type="orders")
    deliver()
    got = {name: numbers_at(server, name) for name in ("a", "b", "all", "typed", "large")}
    assert got == {"a": [1], "b": [2, 3], "all": [1, 2, 3], "typed": [1], "large": [3]}
    ids = {call.id for call in server.calls}
    assert len(ids) == 5
    assert all(each.startswith(f"{GROUP}/outbox/") for each in ids)
    groups = conn.execute("select distinct group_id from gapless.consumer_group").fetchall()
    assert groups == [(GROUP,)]
    assert webhook_info(conn, "a").delivered == 1


@pytest.mark.long
def test_who_fails_is_called_again_alone_and_dies_alone(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    for name in ("good", "bad", "worse"):
        add_shop(conn, server, name, 1)
    server.answer = lambda call: Reply(500 if call.path != "/good" else 204)
    publish_each_alone(conn, {"n": 1, "shop": 1})
    deliver()
    assert letter_states(conn) == ["waiting"]
    assert (webhook_info(conn, "good").waiting, webhook_info(conn, "bad").waiting) == (0, 1)
    server.answer = lambda call: Reply(500 if call.path == "/worse" else 204)
    make_due(conn)
    deliver()
    assert (webhook_info(conn, "bad").waiting, webhook_info(conn, "worse").waiting) == (0, 1)
    conn.execute("update gapless.dead_letter set attempts = 9")
    make_due(conn)
    deliver()
    assert letter_states(conn) == ["dead"]
    assert [webhook_info(conn, name).dead for name in ("good", "bad", "worse")] == [0, 0, 1]
    server.answer = lambda _: Reply()
    (place,) = conn.execute("select partition_id, first_offset from gapless.dead_letter").fetchall()
    conn.execute("select gapless.redrive_letter(%s, 'outbox', %s, %s)", [GROUP, *place])
    calls = {path: len(server.of(path)) for path in ("/good", "/bad")}
    deliver()
    assert calls == {"/good": 1, "/bad": 2}
    assert {path: len(server.of(path)) for path in calls} == calls
    assert len({call.id for call in server.of("/worse")}) == 1
    assert letter_states(conn) == ["redriven"]


def test_one_that_is_corrected_gets_what_waits_for_it(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    add_shop(conn, server, "good", 1)
    add_shop(conn, server, "bad", 1)
    server.answer = lambda call: Reply(500 if call.path == "/bad" else 204)
    publish_each_alone(conn, {"n": 1, "shop": 1})
    deliver()
    add_shop(conn, server, "bad", 2, url=f"{server.url}/new", event_types=["order.*"])
    assert webhook_info(conn, "bad").waiting == 1
    make_due(conn)
    deliver()
    assert [len(server.of(path)) for path in ("/good", "/bad", "/new")] == [1, 1, 1]
    assert letter_states(conn) == []


def test_a_dead_one_is_stopped_alone_and_gets_all_when_it_is_resumed(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    for name in ("good", "dead"):
        add_shop(conn, server, name, 1)
    server.answer = lambda call: Reply(500 if call.path == "/dead" else 204)
    publish_each_alone(conn, *({"n": n, "shop": 1} for n in range(30)))
    deliver()
    info = webhook_info(conn, "dead")
    assert info.circuit_open_since is not None
    assert not info.paused
    assert "its circuit is open: webhook dead: answered 500" in str(info.pause_reason)
    assert info.lag + info.waiting >= 30
    assert numbers_at(server, "good") == [*range(30)]
    requests = len(server.of("/dead"))
    assert requests < 30
    publish_each_alone(conn, *({"n": n, "shop": 1} for n in range(30, 40)))
    deliver()
    assert numbers_at(server, "good") == [*range(40)]
    assert len(server.of("/dead")) == requests
    server.answer = lambda _: Reply()
    server.calls.clear()
    assert resume_webhook(conn, "dead")
    deliver()
    assert set(numbers_at(server, "dead")) == set(range(40))
    assert not server.of("/good")
    info = webhook_info(conn, "dead")
    assert (info.lag, info.waiting, info.dead, info.circuit_open_since) == (0, 0, 0, None)


@pytest.mark.long
def test_gone_rests_until_a_person_resumes_it(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    for name in ("good", "gone"):
        add_shop(conn, server, name, 1)
    server.answer = lambda call: Reply(410 if call.path == "/gone" else 204)
    publish_each_alone(conn, {"n": 1, "shop": 1})
    deliver()
    publish_each_alone(conn, {"n": 2, "shop": 1})
    deliver()
    info = webhook_info(conn, "gone")
    assert (info.paused, info.circuit_open_since, len(server.of("/gone"))) == (True, None, 1)
    assert "410" in str(info.pause_reason)
    assert numbers_at(server, "good") == [1, 2]
    server.answer = lambda _: Reply()
    server.calls.clear()
    assert resume_webhook(conn, "gone")
    deliver()
    assert set(numbers_at(server, "gone")) == {1, 2}


@pytest.mark.long
def test_one_that_asks_for_patience_has_it_alone(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    for name in ("good", "busy"):
        add_shop(conn, server, name, 1)

    def answer(call: Call) -> Reply:
        return Reply(503, {"retry-after": "1800"}) if call.path == "/busy" else Reply()

    server.answer = answer
    publish_each_alone(conn, {"n": 1, "shop": 1}, {"n": 2, "shop": 1})
    deliver()
    assert numbers_at(server, "good") == [1, 2]
    assert len(server.of("/busy")) <= 2
    waits = "select min(next_attempt_ts - now()) > '20 min', max(attempts) from gapless.dead_letter"
    assert conn.execute(waits).fetchone() == (True, 0)
    make_due(conn)
    deliver()
    assert conn.execute(waits).fetchone() == (True, 0)


@pytest.mark.long
def test_one_that_is_stopped_is_stopped_in_partitions_that_come_later(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    for name in ("a", "b"):
        add_shop(conn, server, name, 1)
    assert pause_webhook(conn, "a")
    publish_each_alone(conn, {"n": 0, "shop": 1})
    deliver()
    conn.execute("select gapless.set_partitions('outbox', 16)")
    for n in range(1, 40):
        publish_each_alone(conn, {"n": n, "shop": 1}, key=str(n))
    deliver()
    assert (numbers_at(server, "a"), numbers_at(server, "b")) == ([], [*range(40)])
    assert letter_states(conn) == []
    assert resume_webhook(conn, "a")
    deliver()
    assert numbers_at(server, "a") == [*range(40)]


@pytest.mark.long
def test_who_was_resumed_behind_the_back_of_a_process_loses_nothing(
    conn: Connection, server: Server, deliver: Deliver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows that the endpoint was stopped; only the database knows that it is no more."""

    async def look_never(_: SharedDelivery) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(SharedDelivery, "_keep_looking", look_never)
    for name in ("a", "b"):
        add_shop(conn, server, name, 1)
    assert pause_webhook(conn, "a")
    publish_each_alone(conn, {"n": 0, "shop": 1})
    deliver()  # for b: with this it sees how all are
    assert resume_webhook(conn, "a")
    publish_each_alone(conn, {"n": 1, "shop": 1})
    deliver()
    assert (numbers_at(server, "a"), numbers_at(server, "b")) == ([0, 1], [0, 1])


@pytest.mark.long
def test_a_unit_that_died_for_others_is_sent_to_who_was_stopped(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    for name in ("bad", "later"):
        add_shop(conn, server, name, 1)
    assert pause_webhook(conn, "later")
    server.answer = lambda call: Reply(422 if call.path == "/bad" else 204)
    publish_each_alone(conn, {"n": 1, "shop": 1})
    deliver()
    assert letter_states(conn) == ["dead"]
    assert resume_webhook(conn, "later")
    deliver()
    assert numbers_at(server, "later") == [1]
    assert (
        letter_states(conn),
        webhook_info(conn, "bad").dead,
        webhook_info(conn, "later").dead,
    ) == (["dead"], 1, 0)


def test_a_slow_one_does_not_hold_up_the_others(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    """What waits for it is set aside for it alone, as soon as it has as many as it may.

    One that finds it busy waits a second; had each of them to, this would take a quarter of a minute.
    """
    for name in ("good", "slow"):
        add_shop(conn, server, name, 1)
    ready = threading.Event()
    in_time: list[bool] = []

    def answer(call: Call) -> Reply:
        if call.path == "/slow":
            in_time.append(ready.wait(9))
        elif len(server.of("/good")) == EVENTS_BESIDE_A_SLOW_ONE:
            ready.set()
        return Reply()

    server.answer = answer
    for key in keys_of_one_partition(conn, EVENTS_BESIDE_A_SLOW_ONE):
        publish_each_alone(conn, {"n": 1, "shop": 1}, key=key)
    deliver()
    assert all(in_time)
    assert len(in_time) >= PER_ENDPOINT
    assert len(server.of("/good")) == EVENTS_BESIDE_A_SLOW_ONE


def test_those_that_hang_do_not_hold_up_the_others(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    """More of them than a partition has calls at a time: they have some places, and no more."""
    add_shop(conn, server, "good", 0)
    for n in range(1, HANGING + 1):
        add_shop(conn, server, f"hangs{n}", n)
    ready = threading.Event()
    in_time: list[bool] = []

    def answer(call: Call) -> Reply:
        if call.path != "/good":
            in_time.append(ready.wait(9))
        elif len(server.of("/good")) == HANGING:
            ready.set()
        return Reply()

    server.answer = answer
    keys = iter(keys_of_one_partition(conn, 4 * HANGING))
    for n in range(1, HANGING + 1):
        for shop in (n, n, n, 0):
            publish_each_alone(conn, {"n": n, "shop": shop}, key=next(keys))
    deliver()
    assert all(in_time)
    assert numbers_at(server, "good") == [*range(1, HANGING + 1)]


@pytest.mark.long
def test_pause_resume_test_and_remove_one(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    for name in ("a", "b"):
        add_shop(conn, server, name, 1)
    assert pause_webhook(conn, "a", reason="at night")
    assert not pause_webhook(conn, "a", reason="at night")
    publish_each_alone(conn, {"n": 1, "shop": 1})
    deliver()
    assert (numbers_at(server, "a"), numbers_at(server, "b")) == ([], [1])
    assert webhook_info(conn, "a").pause_reason == "paused: at night"
    assert resume_webhook(conn, "a")
    assert not resume_webhook(conn, "a")
    deliver()
    assert numbers_at(server, "a") == [1]
    assert try_webhook(conn, "a", LOCAL).taken
    server.calls.clear()
    assert remove_webhook(conn, "a")
    publish_each_alone(conn, {"n": 2, "shop": 1})
    deliver()
    assert (len(server.of("/a")), numbers_at(server, "b")) == (0, [2])
    assert remove_webhook(conn, "b")
    assert conn.execute("select count(*) from gapless.consumer_group").fetchone() == (0,)
