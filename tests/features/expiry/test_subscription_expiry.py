"""Subscriptions that expire: gone when nobody renews them, announced before, never by default."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless import ops
from gapless.errors import RefusedError
from gapless.features.expiry.stored import expire_subscriptions
from support.fleet import until
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


def test_a_number_stays_when_only_the_time_changes(conn: Connection) -> None:
    """What waits for a second attempt knows a subscription by its number."""
    ask = "select subscription_id from gapless.subscription where name = 'ann'"
    before = value(conn, ask)
    assert subscribe(conn, "ann", expires_after_s=DAY_S)
    assert value(conn, ask) == before


def test_whose_subscriptions_are_being_changed_keep_them_for_now(
    conn: Connection, dsn: str
) -> None:
    look(conn, 9.9, looks=240)
    with psycopg.connect(dsn) as other:
        subscribe(other, "ann", expires_after_s=10 * DAY_S)
        conn.execute("set lock_timeout = '2s'")
        assert look(conn, 0.2, looks=6) == []
    assert look(conn, 0) == []
    assert names(conn) == ["ann", "ben"]


def test_who_renews_while_somebody_looks_keeps_it(conn: Connection, dsn: str) -> None:
    """A renewal locks nothing of the group: the look waits for it, and finds it renewed."""
    look(conn, 9.9, looks=240)
    with psycopg.connect(dsn) as other, ThreadPoolExecutor(1) as pool:
        assert ops.renew_subscription(other, MAILS, "ann")
        found = pool.submit(look, conn, 0.2, looks=6)
        waits = "select count(*) from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
        until(lambda: value(other, waits, conn.info.backend_pid), "it waits for the row")
        other.commit()
        assert found.result() == []
    assert names(conn) == ["ann", "ben"]


@pytest.mark.long
def test_a_thousand_go_in_a_look(conn: Connection) -> None:
    make = (
        "select gapless.subscribe('mails', 'orders', 's' || n, '{\"customer\": \"$.c\"}',"
        " jsonb_build_object('customer', n), expires_after => '1 day')"
        " from generate_series(1, 1001) n"
    )
    conn.execute(make)
    assert look(conn, 0.95, looks=24) == []
    assert [count for _, _, count in look(conn, 0.1, looks=4)] == [1000, 1]
    assert names(conn) == ["ann", "ben"]


def test_a_clock_that_is_put_back_counts_nothing_twice(conn: Connection) -> None:
    before = value(conn, "select watched from gapless.expiry_clock")
    conn.execute("update gapless.expiry_clock set looked_ts = now() + interval '1 day'")
    assert look(conn, 0) == []
    assert value(conn, "select looked_ts <= clock_timestamp() from gapless.expiry_clock")
    assert value(conn, "select watched from gapless.expiry_clock") == before


def test_what_is_refused(conn: Connection) -> None:
    for seconds in (0, 59, -1, 11 * 365.25 * DAY_S):
        with pytest.raises(RefusedError, match="1 minute to 10 years"):
            subscribe(conn, "ann", expires_after_s=seconds)
    assert not ops.renew_subscription(conn, MAILS, "nobody")
    with pytest.raises(RefusedError, match='no group "nobody"'):
        ops.renew_subscription(conn, ops.GroupPlace(group="nobody", topic="orders"), "ann")
