"""Whose subscriptions a session may lock: which group has some, of a topic."""

from typing import Any

from support.subscribed import subscribe
from support.twins import Twins

SAID: dict[str, Any] = {
    "match": {"c": "$.c"}, "params": {"c": 1, "min": 2}, "condition": "$.n > $min",
    "sql": "e.key is not null", "expires_after": "1 day",
}  # fmt: skip


def test_who_has_no_subscriptions(twins: Twins) -> None:
    twins.conn.execute("select gapless.create_group('half', 'other')")
    twins.conn.execute("select gapless.create_group('half', 'orders')")
    twins.conn.execute("select gapless.create_group('third', 'other')")
    lock = "select gapless.lock_subscriptions(%s, 'x', %s)"
    assert twins.value(lock, "half", twins.topic_ids["orders"]) is False
    assert twins.value(lock, "third", twins.topic_ids["other"]) is False
    subscribe(twins, "a", ("mail", "other"), **SAID)
    assert twins.value(lock, "mail", twins.topic_ids["other"]) is True
