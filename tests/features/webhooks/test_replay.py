"""A webhook that shares a group is sent again what it got: it alone, with the same ids."""

from datetime import timedelta

import pytest
from psycopg import Connection

from gapless.features.webhooks.ops import pause_webhook, replay_webhook, resume_webhook
from support.endpoint import Reply, Server
from support.shared_webhooks import (
    Deliver,
    add_shop,
    letter_states,
    numbers_at,
    publish_each_alone,
)


@pytest.mark.long
def test_what_it_got_since_then(conn: Connection, server: Server, deliver: Deliver) -> None:
    for name in ("a", "b"):
        add_shop(conn, server, name, 1)
    publish_each_alone(conn, {"n": 1, "shop": 1}, {"n": 2, "shop": 2})
    conn.execute("select pg_sleep(0.01)")
    (since,) = conn.execute("select clock_timestamp()").fetchone() or ()
    publish_each_alone(conn, {"n": 3, "shop": 1}, {"n": 4, "shop": 2}, {"n": 5, "shop": 1})
    deliver()
    before = [call.id for call in server.of("/a")]
    assert replay_webhook(conn, "a", since, dry_run=True) == 2
    assert "waiting" not in letter_states(conn)
    assert replay_webhook(conn, "a", since) == 2
    assert replay_webhook(conn, "a", since) == 2, "they wait already, and are not doubled"
    deliver()
    assert numbers_at(server, "a") == [1, 3, 3, 5, 5]
    assert numbers_at(server, "b") == [1, 3, 5]
    assert {call.id for call in server.of("/a")} == set(before)
    assert replay_webhook(conn, "a", timedelta(hours=1)) == 3
    assert letter_states(conn).count("waiting") == 3


@pytest.mark.long
def test_of_one_that_rests_what_is_before_its_place(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    add_shop(conn, server, "a", 1)
    publish_each_alone(conn, {"n": 1, "shop": 1}, key="k")
    deliver()
    pause_webhook(conn, "a")
    publish_each_alone(conn, {"n": 2, "shop": 1}, key="k")
    deliver()
    assert replay_webhook(conn, "a", timedelta(hours=1)) == 1
    deliver()
    assert numbers_at(server, "a") == [1]
    resume_webhook(conn, "a")
    deliver()
    assert numbers_at(server, "a") == [1, 1, 2]


@pytest.mark.long
def test_a_dead_letter_of_another_stays_dead_for_that_one(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    for name in ("a", "b"):
        add_shop(conn, server, name, 1)
    server.answer = lambda call: Reply(422 if call.path == "/b" else 204)
    publish_each_alone(conn, {"n": 1, "shop": 1})
    deliver()
    assert letter_states(conn) == ["dead"]
    assert replay_webhook(conn, "a", timedelta(hours=1)) == 1
    deliver()
    assert len(server.of("/a")) == 2


def test_units_that_wait_for_others_stay_theirs(
    conn: Connection, server: Server, deliver: Deliver
) -> None:
    for name, shop in (("a", 1), ("b", 2)):
        add_shop(conn, server, name, shop)
    server.answer = lambda _: Reply(422)
    publish_each_alone(conn, {"n": 1, "shop": 1}, {"n": 2, "shop": 2}, key="k")
    deliver()
    waits = (
        "select e.c_offset, array_agg(s.name) from gapless.dead_letter_event e"
        " join gapless.subscription s on s.subscription_id = any (e.subscriptions)"
        " where e.is_kept group by e.c_offset order by e.c_offset"
    )
    before = conn.execute(waits).fetchall()
    assert before == [(1, ["a"]), (2, ["b"])]
    assert replay_webhook(conn, "a", timedelta(hours=1)) == 1
    assert conn.execute(waits).fetchall() == before
