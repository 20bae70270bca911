"""A webhook that shares a group is stopped, continued and removed: what is locked, written, and told of it."""

import pytest

from features.webhooks.twins.stopped import GROUP, STOP, hooks
from support.twins import Twins

__all__ = ["hooks"]

PAUSE = "select gapless.pause_webhook('orders-s1', 'at night')"
# Rows that this transaction has not locked before.
ANEW = (
    "with gone as (delete from gapless.consumer_offsets returning *)"
    " insert into gapless.consumer_offsets select * from gone"
)
TOLD = "select group_id, topic_id, detail from gapless.audit where action = %s"
STOPS = (
    "select s.name, p.partition_id, p.reason from gapless.subscription_stop p"
    " join gapless.subscription s using (subscription_id)"
    " where s.group_id = %s and s.topic_id = %s and s.name = 'orders-s1' order by 2"
)


@pytest.mark.parametrize(
    ("group", "topic", "name"),
    [
        (GROUP, "orders", "orders-s2"), (GROUP, "other", "orders-s1"), ("g", "orders", "orders-s1"),
        ("webhooks-other", "other", "orders-s1"),
    ],
)  # fmt: skip
def test_it_is_stopped_wherever_others_are(hooks: Twins, group: str, topic: str, name: str) -> None:
    """It is told, too."""
    for partition in range(3):
        hooks.conn.execute(STOP, [partition, 2, group, hooks.topic_ids[topic], name])
    assert hooks.value(PAUSE) is True
    orders = hooks.topic_ids["orders"]
    rows = hooks.conn.execute(STOPS, [GROUP, orders]).fetchall()
    assert rows == [("orders-s1", n, "paused: at night") for n in range(3)]
    detail = {"subscriptions": 1, "first": "orders-s1", "reason": "paused: at night"}
    told = hooks.conn.execute(TOLD, ["stop_subscriptions"]).fetchall()
    assert told == [(GROUP, orders, detail)]
    assert hooks.value(PAUSE) is False
    assert len(hooks.conn.execute(TOLD, ["stop_subscriptions"]).fetchall()) == 1


def test_where_its_group_is_stands_still_meanwhile(hooks: Twins) -> None:
    """So no seek passes the place by; others go on."""
    hooks.conn.execute(ANEW)
    hooks.conn.execute(PAUSE)
    locked = (
        "select group_id, topic_id, partition_id from gapless.consumer_offsets"
        " where xmax = pg_current_xact_id()::xid order by 1, 2, 3"
    )
    places = [(GROUP, hooks.topic_ids["orders"], n) for n in range(3)]
    assert hooks.conn.execute(locked).fetchall() == places


def test_one_that_fails_while_it_is_stopped_keeps_its_reason(hooks: Twins) -> None:
    """Of two, the one that comes first in the alphabet."""
    orders = hooks.topic_ids["orders"]
    for partition in (0, 2):
        hooks.conn.execute(STOP, [partition, 2, GROUP, orders, "orders-s1"])
    hooks.conn.execute("update gapless.subscription_stop set reason = 'yes' where partition_id = 0")
    hooks.conn.execute("select gapless.stop_webhook('orders-s1', 'failed', true)")
    rows = hooks.conn.execute(STOPS, [GROUP, orders]).fetchall()
    assert rows == [("orders-s1", n, "no") for n in range(3)]


def test_nothing_is_written_of_a_circuit_that_is_closed(hooks: Twins) -> None:
    hooks.conn.execute(PAUSE)
    updates = "select pg_stat_get_xact_tuples_updated('gapless.webhook_state'::regclass)"
    before = hooks.value(updates)
    assert hooks.value("select gapless.resume_webhook('orders-s1')") is True
    assert hooks.value(updates) == before


@pytest.mark.parametrize(
    ("name", "group"), [("orders-s1", GROUP), ("orders-own", "webhook-orders-own")]
)
def test_who_removes_one_is_told_of_without_its_path(hooks: Twins, name: str, group: str) -> None:
    assert hooks.value("select gapless.remove_webhook(%s)", name) is True
    told = hooks.conn.execute(TOLD, ["remove-webhook"]).fetchall()
    assert told == [(group, hooks.topic_ids["orders"], {"webhook": name, "host": "https://a.b"})]


CIRCUITS = "update gapless.webhook_state set circuit_ts = now(), probe_ts = '2001-01-01Z' where (name = 'orders-s1') = any (%s)"


def test_a_pause_closes_the_circuit_of_one_alone(hooks: Twins) -> None:
    hooks.conn.execute(CIRCUITS, [[True, False]])
    every = set(hooks.conn.execute("select name from gapless.webhook").fetchall())
    hooks.conn.execute(PAUSE)
    found = "select name from gapless.webhook_state where {} is not null"
    for column in ("circuit_ts", "probe_ts"):
        left = set(hooks.conn.execute(found.format(column)).fetchall())
        assert left == every - {("orders-s1",)}


@pytest.mark.parametrize("is_open", [True, False])
def test_whose_circuit_is_open_is_probed(hooks: Twins, *, is_open: bool) -> None:
    """All others are the other way."""
    hooks.conn.execute(CIRCUITS, [[is_open]])
    found = hooks.value("select gapless.probe_webhook('orders-s1', '1 min')")
    assert found == ("probe" if is_open else "closed")


def test_those_of_whom_something_is_noted_are_locked(hooks: Twins) -> None:
    """Another worker notes others at the same time."""
    hooks.conn.execute("select gapless.note_webhooks('{orders-s1}', '{1}', '{0}', '{no}')")
    locked = "select name from gapless.webhook_state where xmax = pg_current_xact_id()::xid"
    assert hooks.conn.execute(locked).fetchall() in ([], [("orders-s1",)])
