"""Who has no subscriptions, and is told so."""

from typing import Any

from support.subscribed import SUBSCRIBE, request, subscribe
from support.twins import Twins

SAID: dict[str, Any] = {
    "match": {"c": "$.c"}, "params": {"c": 1, "min": 2}, "condition": "$.n > $min",
    "sql": "e.key is not null", "expires_after": "1 day",
}  # fmt: skip
UNSUBSCRIBE = "select gapless.unsubscribe(%s, %s, %s)"
NO_GROUP = ("GL404", 'there is no group "nobody": gapless groups lists them')


def test_who_has_no_subscriptions(twins: Twins) -> None:
    """A queue, a group that is not there, or does not read the topic, or has a filter there."""
    queue = 'group "auditor" is a queue, and only an ordered group has subscriptions'
    asked = request("a", ("auditor", "orders"), **SAID)
    assert twins.refused(SUBSCRIBE, asked) == ("GL400", queue)
    asked = request("a", ("nobody", "orders"), **SAID)
    assert twins.refused(SUBSCRIBE, asked) == NO_GROUP
    twins.conn.execute("select gapless.create_group('half', 'other')")
    twins.conn.execute("select gapless.set_filter('half', 'other', '{a}')")
    said = 'group "half" does not consume topic "orders", but other'
    asked = request("a", ("half", "orders"), **SAID)
    assert twins.refused(SUBSCRIBE, asked) == ("GL404", said)
    said = (
        'group "half" has a filter of topic "other", and so no subscriptions: clear_filter() first'
    )
    for statement, params in (
        (SUBSCRIBE, request("a", ("half", "other"), **SAID)),
        (UNSUBSCRIBE, ["half", "other", "a"]),
    ):
        assert twins.refused(statement, params) == ("GL400", said)
    twins.conn.execute("select gapless.create_group('half', 'orders')")
    twins.conn.execute("select gapless.create_group('third', 'other')")
    lock = "select gapless.lock_subscriptions(%s, 'x', %s)"
    assert twins.value(lock, "half", twins.topic_ids["orders"]) is False
    assert twins.value(lock, "third", twins.topic_ids["other"]) is False
    subscribe(twins, "a", ("mail", "other"), **SAID)
    assert twins.value(lock, "mail", twins.topic_ids["other"]) is True
