"""The audit as a list: each filter, its pages, a range that makes no sense; the command and the route read the same."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

from gapless import ops
from gapless.errors import UsageError
from support.records import Command


@pytest.fixture
def noted(conn: Connection) -> None:
    """Rows of three authors, an hour apart."""
    conn.execute("select gapless.create_topic('orders', 1)")
    conn.execute("select gapless.create_topic('mails', 1)")
    conn.execute(
        "insert into gapless.audit (at_ts, who, action, group_id, topic_id, partition_id, detail)"
        " select now() - h * interval '1 hour', w, a, g, coalesce(t.topic_id, 0), p, '{}'"
        " from (values (3, 'ann', 'pause', 'billing', 'orders', 1),"
        "   (2, 'gateway (gateway: key 1 (Ben))', 'resume', 'billing', 'orders', null),"
        "   (1, 'cid', 'create-key', '', '', null)) v (h, w, a, g, topic, p)"
        " left join gapless.topic t on t.name = topic order by h desc"
    )


def actions(conn: Connection, **wanted: Any) -> list[str]:
    return [each.action for each in ops.list_audit(conn, **wanted)]


def test_each_filter(conn: Connection, noted: None, command: Command) -> None:
    everything = ["create-key", "resume", "pause"]
    now = conn.execute("select now()").fetchone()
    assert now is not None
    ago = {hours: now[0] - timedelta(hours=hours) for hours in (1.5, 2.5)}
    for wanted, found in (
        ({}, everything),
        ({"who": "BEN"}, ["resume"]),
        ({"who": "%"}, []),
        ({"action": "pause"}, ["pause"]),
        ({"group": "billing"}, ["resume", "pause"]),
        ({"topic": "mails"}, []),
        ({"since": timedelta(hours=2.5)}, ["create-key", "resume"]),
        ({"since": ago[2.5], "until": ago[1.5]}, ["resume"]),
        ({"limit": 1}, ["create-key"]),
    ):
        assert actions(conn, **wanted) == found, wanted
    newest, *older = ops.list_audit(conn)
    assert actions(conn, before=newest.audit_id) == everything[1:]
    assert (newest.group, newest.topic, newest.partition) == (None, None, None)
    assert (older[1].group, older[1].topic, older[1].partition) == ("billing", "orders", 1)
    assert [row["who"] for row in command("audit", "--since", "150m")] == ["cid", older[0].who]


def test_what_makes_no_sense(conn: Connection) -> None:
    for wanted in ({"limit": 0}, {"limit": 1001}):
        with pytest.raises(UsageError, match="from 1 to 1000"):
            ops.list_audit(conn, **wanted)
    late, early = (datetime.fromisoformat(f"2026-01-0{day}T00:00Z") for day in (2, 1))
    day = timedelta(days=1)
    for look in (
        lambda: ops.list_audit(conn, since=late, until=early),
        lambda: ops.list_audit(conn, since=day, until=early),
        lambda: ops.list_later(conn, since=late, until=early),
        lambda: ops.list_units(conn, ops.DlqFilter(since=late, until=early)),
        lambda: ops.summarise_units(conn, ops.DlqFilter(age=day, until=early)),
    ):
        with pytest.raises(UsageError, match="before it begins"):
            look()
