"""What is said to people: why no client can serve a group, and why a partition gives nothing."""

import pytest

from support.staff import Staff
from support.twins import Twins

WEBHOOK = (
    "insert into gapless.webhook (name, topic_id, url, secrets, allow_http, keeps_order, concurrency)"
    " values ('{name}', {topic}, 'http://x', '{{}}', true, true, 1)"
)
FILTER = (
    "insert into gapless.group_filter (group_id, topic_id, event_types)"
    " select group_id, topic_id, '{{a}}' from gapless.consumer_group where {where}"
)
HERE, ELSEWHERE = (
    "group_id = 'billing' and topic_id = {topic}",
    "not (group_id = 'billing' and topic_id = {topic})",
)
LATEST = (
    'group "billing" begins with the newest event of each key, which only a supervisor (gapless run) reads:'
    " join when it has come to the log"
)
FILTERED = (
    'group "billing" has a filter or subscriptions, which only a supervisor (gapless run) applies:'
    " use a group without, and pass unwanted events in the client"
)
# What is so of the group, or of what is beside it; why no client can serve it.
REASONS: dict[str, tuple[str, str | None]] = {
    "nothing": ("select 1", None),
    "a replay": (
        f"update gapless.consumer_group set is_scratch = true where {HERE}",
        'group "billing" is a replay, which only the one that made it handles',
    ),
    "others are replays": (f"update gapless.consumer_group set is_scratch = true where {ELSEWHERE}", None),
    "a queue": (
        f"update gapless.consumer_group set mode = 'queue', block = 4 where {HERE}",
        'group "billing" is a queue: clients do not join it, they take its events (gapless.take)',
    ),
    "others are queues": (f"update gapless.consumer_group set mode = 'queue', block = 4 where {ELSEWHERE}", None),
    "direct messages": (
        "update gapless.topic set direct = true where name = 'orders'",
        'topic "orders" has direct messages, which only a supervisor (gapless run) tells apart',
    ),
    "another topic has direct messages": ("update gapless.topic set direct = true where name <> 'orders'", None),
    "it reads latest": (
        f"update gapless.consumer_offsets set latest_upto = 2 where {HERE} and partition_id = 2", LATEST,
    ),
    "it has read latest": (f"update gapless.consumer_offsets set latest_upto = 1 where {HERE}", None),
    "others read latest": (f"update gapless.consumer_offsets set latest_upto = 2 where {ELSEWHERE}", None),
    "a filter": (FILTER.replace("{where}", HERE), FILTERED),
    "others have filters": (FILTER.replace("{where}", ELSEWHERE + " and mode = 'ordered'"), None),
    "a filter is to come": (
        f"update gapless.consumer_offsets set filter_no = 3 where {HERE} and partition_id = 2", FILTERED,
    ),
    "others have a filter to come": (f"update gapless.consumer_offsets set filter_no = 3 where {ELSEWHERE}", None),
    "a webhook of that name": (WEBHOOK.replace("{name}", "billing"), None),
    "a webhook of another name": (WEBHOOK.replace("{name}", "webhook-billing"), None),
}  # fmt: skip


@pytest.mark.parametrize("name", REASONS)
def test_why_no_client_can_serve_a_group(twins: Twins, name: str) -> None:
    change, wanted = REASONS[name]
    topic = twins.topic_ids["orders"]
    twins.conn.execute(change.format(topic=topic).encode())
    assert twins.value("select gapless.no_client_reason('billing', %s)", topic) == wanted


@pytest.mark.parametrize("name", ["hook", "other"])
def test_of_a_webhook_s_group(twins: Twins, name: str) -> None:
    topic = twins.topic_ids["orders"]
    twins.conn.execute("select gapless.create_group('webhook-hook', 'orders')")
    twins.conn.execute(WEBHOOK.format(name=name, topic=topic).encode())
    said = 'group "webhook-hook" is a webhook\'s, whose handler is built in'
    found = twins.value("select gapless.no_client_reason('webhook-hook', %s)", topic)
    assert found == (said if name == "hook" else None)


@pytest.mark.parametrize("topic", ["orders", "other"])
def test_of_a_group_that_is_not_there(twins: Twins, topic: str) -> None:
    """Neither one of that name of another topic, nor another one of this topic, is it."""
    topic_id = twins.topic_ids[topic]
    twins.conn.execute(
        "select gapless.create_group('one', %s)", [{"orders": "other"}.get(topic, "orders")]
    )
    said = (
        f'group "one" does not consume topic "{topic}": make it with'
        f" gapless.create_group('one', '{topic}')"
    )
    ask = "select gapless.no_client_reason('one', %s)"
    assert twins.refused(ask, [topic_id]) == ("GL404", said)


STILL = {
    "hole": "offsets 4 to 6 are not all there: gapless skip billing/orders/1@4 passes the missing ones",
    "overrun": (
        "retention dropped offsets 4 to 6 before group billing handled them:"
        " gapless seek --earliest continues without them"
    ),
    "beyond": (
        "the group is at offset 4, beyond the end of the log, where the next event had offset 6:"
        " gapless seek billing/orders/1@6 --pause --yes"
    ),
    "unplaced": "the group has no row in consumer_offsets for it: gapless seek billing/orders/1 gives it a place",
    "idle": None,
    "fenced": None,
    "claimed": None,
}


@pytest.mark.parametrize("outcome", STILL)
def test_why_a_partition_gives_nothing(twins: Twins, outcome: str) -> None:
    ask = "select gapless.standstill_reason(%s, 'billing', 'orders', 1, 4, 6)"
    assert twins.value(ask, outcome) == STILL[outcome]


def test_whom_a_filter_stops(staff: Staff) -> None:
    """It says so to who joins, and to who polls."""
    staff.run("select gapless.set_filter('billing', 'orders', '{{a}}')")
    for ask in (
        "select gapless.join('billing', 'orders')",
        f"select gapless.poll('{staff.token}')",
    ):
        state, text = staff.twins.refused(ask)
        assert (state, text) == ("GL409", FILTERED)
