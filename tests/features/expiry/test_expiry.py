"""Groups with an expiry: dropped when nobody uses them for long, announced before, never by default."""

from typing import Any

import psycopg
import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.features.expiry.stored import expire_groups
from gapless.lease.member import Member, ServedTopic, Timing
from gapless.log.publish import publish
from gapless.log.topics import ensure_topic
from gapless.testing import drain
from support.records import Command, value

DAY_S = 86_400.0


@pytest.fixture(autouse=True)
def trial(conn: Connection, orders: None) -> None:
    """Group trial expires after ten days; group billing never."""
    conn.execute("select gapless.create_group('trial', 'orders')")
    assert ops.set_expiry(conn, "trial", 10 * DAY_S).changed
    look(conn, 0)


def look(conn: Connection, days: float, *, looks: int = 1) -> list[Any]:
    """Look after so many days, in steps that somebody looked at."""
    gone: list[Any] = []
    for _ in range(looks):
        conn.execute(
            "update gapless.group_expiry set looked_ts = looked_ts - make_interval(secs => %s)",
            [days * DAY_S / looks],
        )
        gone += conn.execute(
            "select group_id, set_aside from gapless.expire_groups(3600)"
        ).fetchall()
    return gone


def groups(conn: Connection) -> list[str]:
    return [each.group for each in ops.list_groups(conn)]


@pytest.mark.long
def test_unused_it_goes_with_its_letters_and_is_audited(conn: Connection, dsn: str) -> None:
    @gapless.handler(topic="orders", group="trial")
    def refuse(unit: gapless.Unit, conn: object) -> None:
        raise ValueError("no")

    drain(dsn, refuse)
    units = value(conn, "select count(*) from gapless.dead_letter where group_id = 'trial'")
    assert units
    look(conn, 0)
    assert look(conn, 9.9, looks=240) == []
    assert "trial" in groups(conn)
    assert look(conn, 0.2, looks=6) == [("trial", units)]
    assert groups(conn) == ["billing"]
    assert value(conn, "select count(*) from gapless.dead_letter where group_id = 'trial'") == 0
    actions = (
        "select array_agg(action order by audit_id) from gapless.audit where group_id = 'trial'"
    )
    assert value(conn, actions)[-3:] == ["expiry", "expire", "drop"]
    assert ops.list_expiries(conn) == []


def test_time_in_which_nobody_looked_does_not_count(conn: Connection) -> None:
    """A weekend without any supervisor is no reason: the service was down, too."""
    assert look(conn, 30) == []
    (found,) = ops.list_expiries(conn, "trial")
    assert 0 < found.idle_s <= 3600


@pytest.mark.few(3)
@pytest.mark.parametrize("use", ["claim", "take", "member", "pause", "seek"])
def test_who_uses_it_keeps_it(conn: Connection, dsn: str, use: str) -> None:
    if use == "take":
        conn.execute("select gapless.drop_group('trial')")
        conn.execute("select gapless.create_group('trial', 'orders', mode => 'queue')")
        ops.set_expiry(conn, "trial", 10 * DAY_S)
        look(conn, 0)
    look(conn, 9.8, looks=240)
    if use == "claim":
        drain(dsn, gapless.handler(topic="orders", group="trial")(lambda unit, conn: None))
    elif use == "take":
        conn.execute("select * from gapless.take('trial', 'orders')").fetchall()
    elif use == "member":
        join(conn)
    elif use == "pause":
        ops.pause(conn, ops.GroupPlace(group="trial"))
    else:
        ops.seek(conn, ops.GroupPlace(group="trial"), ops.Point(end="latest"))
    assert look(conn, 1, looks=24) == []
    assert "trial" in groups(conn)
    (found,) = ops.list_expiries(conn)
    assert found.idle_s < 1.1 * DAY_S
    if use in ("member", "pause"):
        assert found.idle_s == 0


def join(conn: Connection) -> None:
    topic = ensure_topic(conn, "orders", partitions=1)
    found = ServedTopic(group_id="trial", topic="orders", topic_id=topic.topic_id, start="earliest")
    timing = Timing(ttl_ms=3_600_000, suspect_grace_ms=0, reconnect_grace_ms=0)
    Member(conn, [found], timing, name="test", capacity=None).sync()


@pytest.mark.long
def test_last_tenth_is_announced(conn: Connection, command: Command) -> None:
    look(conn, 8.5, looks=240)
    assert command("status", "--json")["expiring"] == []
    look(conn, 0.6, looks=24)
    (near,) = command("status", "--json")["expiring"]
    assert near["group"] == "trial"
    assert 0 < near["left_s"] < 1.5 * DAY_S
    (finding,) = (each for each in ops.diagnose(conn.info.dsn) if each.name == "expiry")
    assert (finding.level, "group trial is dropped" in finding.text) == ("warning", True)


@pytest.mark.long
def test_never_is_the_default_and_can_be_said(conn: Connection, command: Command) -> None:
    assert [each.group for each in ops.list_expiries(conn)] == ["trial"]
    assert not ops.set_expiry(conn, "trial", 10 * DAY_S).changed
    done = command("groups", "expire", "trial", "--never")
    assert done == {"group": "trial", "expires_after_s": None, "changed": True}
    look(conn, 20, looks=500)
    assert "trial" in groups(conn)
    assert command("groups", "expire", "trial", "--after", "30d")["changed"]
    (row,) = command("groups", "expire", "trial")
    assert row["expires_after_s"] == 30 * DAY_S


def test_group_that_is_made_again_is_another_one(conn: Connection) -> None:
    conn.execute("select gapless.drop_group('trial')")
    conn.execute("select gapless.create_group('trial', 'orders')")
    assert ops.list_expiries(conn) == []


def test_housekeeper_looks(conn: Connection) -> None:
    conn.execute("update gapless.group_expiry set idle = '11 days'")
    publish(conn, "orders", 1)
    assert [each.group_id for each in expire_groups(conn, 60.0)] == ["trial"]


def test_two_that_look_at_once_drop_it_once(conn: Connection, dsn: str) -> None:
    conn.execute("update gapless.group_expiry set idle = '11 days'")
    with psycopg.connect(dsn) as other:
        other.execute("select from gapless.group_expiry for update")
        assert expire_groups(conn, 60.0) == []
