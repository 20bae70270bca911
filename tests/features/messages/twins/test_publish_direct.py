"""Events for one group: whom they name, among groups and subscriptions that are alike."""

from typing import Any

import pytest

from features.messages.twins.direct import BAD, GOOD, NO_OBJECT, TO_BILLING, params
from support.stored import Stored, call
from support.twins import Twins

TO = "headers => %(headers)s, to_group => %(group)s, to_subscription => %(subscription)s"
EACH_TO = "headers => array[%(headers)s], to_groups => array[%(group)s], to_subscriptions => array[%(subscription)s]"
WAYS = {
    "publish": f"select gapless.publish(%(topic)s, '7', {TO})",
    "publish, with a key": f"select gapless.publish(%(topic)s, '7', dedupe_key => 'a', {TO})",
    "publish, later": f"select gapless.publish(%(topic)s, '7', deliver_in => '100 s', {TO})",
    "publish_each": f"select transaction_id from gapless.publish_each(%(topic)s, array['7'], {EACH_TO})",
    "publish_each, with a key": (
        f"select transaction_id from gapless.publish_each(%(topic)s, array['7'], dedupe_keys => array['a'], {EACH_TO})"
    ),
    "publish_each, later": (
        f"select transaction_id from gapless.publish_each(%(topic)s, array['7'], deliver_ins => array['100 s'], {EACH_TO})"
    ),
    "publish_request": f"select transaction_id from gapless.publish_request(%(topic)s, 'a', 'x', array['7'], {EACH_TO})",
}  # fmt: skip


def only_headers(stored: Stored) -> Any:
    """The headers of the one event that was stored, or waits."""
    (row,) = stored.events + stored.waiting
    assert row[:4] == ("orders", None, None, "7")
    return row[4]


@pytest.mark.few(8)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("headers", "group", "subscription", "expected"), GOOD)
def test_whom_it_is_for_is_in_its_headers(
    direct: Twins,
    way: str,
    headers: str | None,
    group: str,
    subscription: str | None,
    expected: Any,
) -> None:
    stored = call(direct, WAYS[way], params("orders", headers, group, subscription))
    assert only_headers(stored) == expected


@pytest.mark.few(16)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bad", BAD)
def test_whom_nobody_would_reach_is_refused(direct: Twins, way: str, bad: Any) -> None:
    topic, headers, group, subscription, state, why = bad
    assert direct.refused(WAYS[way], params(topic, headers, group, subscription)) == (state, why)


@pytest.mark.few(4)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("headers", [None, '{"a": 1}'])
def test_what_is_for_all_has_the_headers_it_was_given(
    direct: Twins, way: str, headers: str | None
) -> None:
    """Whether the topic takes direct messages or not."""
    for topic in ("orders", "other"):
        with direct.conn.transaction(force_rollback=True):
            stored = call(direct, WAYS[way], params(topic, headers, None, None))
            (row,) = stored.events + stored.waiting
            assert (row[0], row[4]) == (topic, None if headers is None else {"a": 1})


@pytest.mark.parametrize(
    "call",
    [
        "publish_once('orders', '1', 'a', headers => '[1]')",
        "publish_later('orders', '1', deliver_in => '100 s', headers => '[1]')",
        "publish_some_from('', null, 'orders', '{1}', null, null, '{[1]}', null, null, null)",
        "add_schedule('s', 'orders', every => '1 h', headers => '[1]')",
    ],
)
def test_headers_that_are_no_object_are_refused(twins: Twins, call: str) -> None:
    assert twins.refused(f"select gapless.{call}") == ("22023", f"{NO_OBJECT}[1]")


@pytest.mark.parametrize("name", ["publish_each", "publish_request"])
def test_each_of_several_is_for_whom_it_names(direct: Twins, name: str) -> None:
    key = "'a', 'x', " if name == "publish_request" else ""
    stored = call(
        direct,
        f"select * from gapless.{name}('orders', {key}array['1', '2', '3', '4'], headers => array['{{\"a\": 1}}',"
        " null, null, '{\"b\": 1}'], to_groups => array['mail', null, 'billing', null],"
        " to_subscriptions => array['m', null, null, null])",
    )
    mail = {"gapless-to-group": "mail", "gapless-to-subscription": "m"}
    assert [row[3:5] for row in stored.events] == [
        ("1", {"a": 1} | mail), ("2", None), ("3", TO_BILLING), ("4", {"b": 1}),
    ]  # fmt: skip
