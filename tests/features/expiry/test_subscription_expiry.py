"""Subscriptions that expire: gone when nobody renews them, announced before, never by default."""

from typing import Any

import pytest
from psycopg import Connection

from gapless import ops
from gapless.features.expiry.stored import expire_subscriptions
from support.records import Command, value

DAY_S = 86_400.0
MAILS = ops.GroupPlace(group="mails")


@pytest.fixture(autouse=True)
def mails(conn: Connection, orders: None) -> None:
    """Subscription ann of group mails expires after ten days; ben never.

    Somebody has looked just now: the database is a copy, and what it was copied from may be old.
    """
    conn.execute("update gapless.expiry_clock set looked_ts = clock_timestamp()")
    conn.execute("select gapless.create_group('mails', 'orders')")
    subscribe(conn, "ann", expires_after_s=10 * DAY_S)
    subscribe(conn, "ben")


def subscribe(conn: Connection, name: str, **said: Any) -> bool:
    match, params = {"customer": "$.customer_id"}, {"customer": name}
    return ops.subscribe(conn, MAILS, name, match=match, params=params, **said).changed


def look(conn: Connection, days: float, *, looks: int = 1) -> list[Any]:
    """Look after so many days, in steps that somebody looked at."""
    gone: list[Any] = []
    for _ in range(looks):
        conn.execute(
            "update gapless.expiry_clock set looked_ts = looked_ts - make_interval(secs => %s)",
            [days * DAY_S / looks],
        )
        gone += expire_subscriptions(conn, 3600.0)
    return [(each.group_id, each.topic, each.subscriptions) for each in gone]


def names(conn: Connection) -> list[str]:
    return [each.name for each in ops.list_subscriptions(conn, MAILS)]


def test_not_renewed_it_goes_and_is_audited(conn: Connection) -> None:
    assert look(conn, 9.9, looks=240) == []
    assert names(conn) == ["ann", "ben"]
    assert look(conn, 0.2, looks=6) == [("mails", "orders", 1)]
    assert names(conn) == ["ben"]
    audit = "select detail ->> 'name' from gapless.audit where action = 'expire_subscription'"
    assert value(conn, audit) == "ann"
    assert value(conn, "select count(*) from gapless.subscription_form") == 1


def test_time_in_which_nobody_looked_does_not_count(conn: Connection) -> None:
    """A weekend without any supervisor is no reason: who renews may have been down, too."""
    assert look(conn, 30) == []
    ann, _ = ops.list_subscriptions(conn, MAILS)
    assert 10 * DAY_S - 3700 <= (ann.left_s or 0) <= 10 * DAY_S


@pytest.mark.parametrize("how", ["renew", "subscribe again"])
def test_who_renews_it_keeps_it(conn: Connection, how: str) -> None:
    look(conn, 9.8, looks=240)
    if how == "renew":
        assert ops.renew_subscription(conn, MAILS, "ann")
    else:
        assert not subscribe(conn, "ann", expires_after_s=10 * DAY_S)
    assert look(conn, 1, looks=24) == []
    ann, ben = ops.list_subscriptions(conn, MAILS)
    assert 8 * DAY_S < (ann.left_s or 0) < 9.1 * DAY_S
    assert (ben.expires_after_s, ben.left_s) == (None, None)


@pytest.mark.long
def test_last_tenth_is_announced(conn: Connection, command: Command) -> None:
    def near() -> int:
        (found,) = command("status", "--json")["subscribed"]
        assert (found["group"], found["subscriptions"], found["forms"]) == ("mails", 2, 1)
        assert (found["may_expire"], found["stopped"]) == (1, 0)
        return int(found["near"])

    look(conn, 8.5, looks=240)
    assert near() == 0
    look(conn, 0.6, looks=24)
    assert near() == 1
    (finding,) = (each for each in ops.diagnose(conn.info.dsn) if each.name == "subscriptions")
    assert finding.level == "warning"
    assert "1 will be dropped unless they are renewed, the first in 2" in finding.text


@pytest.mark.long
def test_never_is_the_default_and_can_be_said(conn: Connection) -> None:
    assert not subscribe(conn, "ben")
    assert subscribe(conn, "ann")
    assert subscribe(conn, "ben", expires_after_s=DAY_S)
    assert look(conn, 20, looks=500) == [("mails", "orders", 1)]
    assert names(conn) == ["ann"]
