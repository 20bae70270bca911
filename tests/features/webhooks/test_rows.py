"""What is done to one webhook, row by row, beside others that are just like it.

On each of two topics of two partitions there are two webhooks with groups of their own and two that share
one. Each test is taken back.
"""

import json
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from features.webhooks.hooks import NEIGHBOUR, OWN, REMOVED, SHARED, Hooks, shared, world

__all__ = ["shared", "world"]  # fixtures

OPEN = "update gapless.webhook_state set circuit_ts = '2001-01-01Z', probe_ts = '2001-01-01Z' where name = %s"


def _both(reason: str, name: str = SHARED) -> list[Any]:
    return [(name, partition, reason) for partition in (0, 1)]


# What was before, whether it is tried now and then, and what is so afterwards.
PAUSED = "select gapless.pause_webhook('orders-s1', 'at night')"
TRIED = "select gapless.stop_webhook('orders-s1', 'first', true)"
IN_ONE = "delete from gapless.subscription_stop where partition_id = 1"
STOPPED: dict[str, tuple[list[str], bool, list[Any], dict[str, tuple[bool, bool]]]] = {
    "gone": ([], False, _both("why"), {}),
    "fails": ([], True, _both("why"), {SHARED: (True, True)}),
    "gone, and failed before": ([TRIED], False, _both("why"), {}),
    "fails again": ([TRIED], True, _both("first"), {SHARED: (True, True)}),
    "fails while it is paused": ([PAUSED], True, _both("paused: at night"), {}),
    "gone while it is paused": ([PAUSED], False, _both("why"), {}),
    "fails where it is not stopped": ([TRIED, IN_ONE], True, _both("first"), {SHARED: (True, True)}),
    "fails, another one is stopped": (
        [PAUSED.replace("s1", "s2")], True,
        [*_both("why"), *_both("paused: at night", NEIGHBOUR)], {SHARED: (True, True)},
    ),
    "fails, others of that name are stopped": (
        [
            "select gapless.create_group('webhooks-orders', 'other')",
            "select gapless.subscribe('webhooks-orders', 'other', 'orders-s1', condition => '1 == 1')",
            ("insert into gapless.subscription_stop (subscription_id, partition_id, from_offset, reason)"
            " select subscription_id, 1, 1, 'raised' from gapless.subscription where group_id = 'g'"
            " or topic_id = gapless.topic_id('other') and group_id = 'webhooks-orders'"),
        ],
        True,
        [(SHARED, 0, "why"), *[(SHARED, 1, "raised")] * 2, (SHARED, 1, "why")],
        {SHARED: (True, True)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STOPPED)
def test_one_that_shares_a_group_is_stopped(world: Hooks, name: str) -> None:
    before, tries, stops, circuits = STOPPED[name]
    for statement in before:
        world.conn.execute(statement)  # type: ignore[arg-type]
    world.value("select gapless.stop_webhook(%s, 'why', %s)", SHARED, tries)
    assert sorted(world.stops()) == stops
    assert world.circuits() == circuits


def test_a_stop_says_why_in_so_many_letters(world: Hooks) -> None:
    for name in (OWN, SHARED):
        world.value("select gapless.stop_webhook(%s, repeat('x', 600))", name)
    assert world.all("select group_id, reason from gapless.group_pause") == [
        (f"webhook-{OWN}", "x" * 500)
    ]
    assert world.stops() == _both("x" * 500)
    (detail,) = [
        detail
        for action, detail in world.all("select action, detail from gapless.audit")
        if action == "stop_subscriptions"
    ]
    assert detail == {"subscriptions": 1, "first": SHARED, "reason": "x" * 300}


# Calls that change nothing, after a statement about the one that they name.
IDLE = {
    "stop one that is not there": ("", "stop_webhook('nobody', 'why')"),
    "stop one that was removed": (REMOVED, "stop_webhook(%s, 'why')"),
    "stop a shared one that was removed": (REMOVED, "stop_webhook(%s, 'why', true)"),
    "it answered, and was not stopped": ("", "answered_webhook(%s)"),
    "it answered, and was paused": (
        "select gapless.stop_webhook(%s, 'why')", "answered_webhook(%s)",
    ),
    "another one answered": (OPEN, "answered_webhook('orders-s2')"),
    "it answered, and has a group of its own": (OPEN, f"answered_webhook('{OWN}')"),
    "it answered, and was removed": (OPEN + ";" + REMOVED, "answered_webhook(%s)"),
    "remove one that was removed": (REMOVED, "remove_webhook(%s)"),
    "pause one that is paused": ("select gapless.pause_webhook(%s)", "pause_webhook(%s)"),
    "resume one that is not": ("", "resume_webhook(%s)"),
    "probe one that is closed": ("", "probe_webhook(%s, '0')"),
}  # fmt: skip


@pytest.mark.parametrize("webhook", [OWN, SHARED])
@pytest.mark.parametrize("name", IDLE)
def test_nothing_is_changed(world: Hooks, name: str, webhook: str) -> None:
    before, call = IDLE[name]
    for statement in filter(None, before.split(";")):
        world.conn.execute(statement, [webhook])  # type: ignore[arg-type]
    rows = world.rows()
    params = [webhook] if "%s" in call else []
    assert world.value(f"select gapless.{call}", *params) in {False, None, "", "closed"}
    assert world.rows() == rows


def test_one_with_a_group_of_its_own_keeps_its_circuit(world: Hooks) -> None:
    world.conn.execute(OPEN, [OWN])
    world.value("select gapless.stop_webhook(%s, 'gone')", OWN)
    assert world.circuits() == {OWN: (True, True)}


def test_one_that_answered_continues_alone(world: Hooks) -> None:
    for name in (SHARED, NEIGHBOUR):
        world.value("select gapless.stop_webhook(%s, 'why', true)", name)
    assert world.value("select gapless.answered_webhook(%s)", SHARED) is True
    assert world.circuits() == {NEIGHBOUR: (True, True)}
    assert world.stops() == _both("why", NEIGHBOUR)


LETTERS = (
    "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset, last_offset,"
    " events, transaction_id, state, attempts, reason, exception, next_attempt_ts)"
    " select %s, t.topic_id, p, n, n, 1, gen_random_uuid(), case n when 3 then 'dead' else 'waiting' end,"
    " 1, 'no', 'no', case n when 3 then null when 4 then '2001-01-01Z' else '2100-01-01Z'::timestamptz end"
    " from gapless.topic t, generate_series(0, 1) p, generate_series(1, 6) n"
)
# In webhooks-orders the units at 1 are of orders-s1, at 2 of its neighbour, at 5 of either by partition, and
# at 6 of a subscription of that name in another group; elsewhere those at 2, 5 and 6 are of orders-s1, too.
LETTER_EVENTS = (
    "insert into gapless.dead_letter_event (group_id, topic_id, partition_id, c_offset, first_offset,"
    " message_id, transaction_id, created_ts, subscriptions)"
    " select d.group_id, d.topic_id, d.partition_id, d.first_offset, d.first_offset, 1, d.transaction_id,"
    " now(), array[s.subscription_id]"
    " from gapless.dead_letter d join gapless.subscription s on case"
    " when d.group_id <> 'webhooks-orders' or d.topic_id <> gapless.topic_id('orders')"
    " then s.name = 'orders-s1' and s.group_id <> 'g'"
    " when d.first_offset = 6 then s.group_id = 'g'"
    " when d.first_offset = 2 or d.first_offset = 5 and d.partition_id = 1 then s.name = 'orders-s2'"
    " else s.name = 'orders-s1' and s.group_id <> 'g' end"
)


def test_what_was_set_aside_for_one_that_continues_is_due_at_once(world: Hooks) -> None:
    """What waits, of its own; neither what is dead, or due already, nor others' of that group or topic."""
    for group in ("webhooks-orders", "webhooks-other", "g"):
        world.conn.execute(LETTERS, [group])
    world.conn.execute(LETTER_EVENTS)
    world.value("select gapless.pause_webhook(%s)", SHARED)
    before = set(world.all("select * from gapless.dead_letter"))
    assert world.value("select gapless.resume_webhook(%s)", SHARED) is True
    orders = world.value("select gapless.topic_id('orders')")
    changed = {row[:4] for row in set(world.all("select * from gapless.dead_letter")) - before}
    assert changed == {
        ("webhooks-orders", orders, partition, first)
        for partition, first in [(0, 1), (1, 1), (0, 5)]
    }
    left = world.value(
        "select count(*) from gapless.dead_letter where next_attempt_ts = '2100-01-01Z'"
    )
    assert left == 3 * 2 * 2 * 4 - 3


# When its circuit opened and it was probed, before now; whether it may be probed each minute, and if it is now.
MINUTE = timedelta(minutes=1)
PROBES: dict[str, tuple[bool, timedelta | None, str]] = {
    "closed": (False, None, "closed"),
    "closed, was probed": (False, 2 * MINUTE, "closed"),
    "open": (True, None, "probe"),
    "open, probed long ago": (True, 2 * MINUTE, "probe"),
    "open, probed a moment ago": (True, timedelta(), "wait"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBES)
def test_one_is_probed_alone(world: Hooks, name: str) -> None:
    is_open, probed, answer = PROBES[name]
    world.conn.execute(
        "update gapless.webhook_state set circuit_ts = case when %s then now() end,"
        " probe_ts = clock_timestamp() + interval '30 s' - %s::interval",
        [is_open, probed],
    )
    before = world.rows()
    assert world.value("select gapless.probe_webhook(%s, '1 min')", OWN) == answer
    changed = world.rows() ^ before
    assert len(changed) == (2 if answer == "probe" else 0)
    assert all(json.loads(row)["name"] == OWN for _, row in changed)


# Whether it is open, and was probed; what is noted of it, and if it is open then, probed then, and noted when.
NOTES: dict[str, tuple[bool, tuple[int, int, str | None, bool], tuple[Any, ...]]] = {
    "a success": (False, (2, 0, None, False), (12, 20, None, False, False, True)),
    "a failure": (False, (0, 3, "e", False), (10, 23, "e", False, False, True)),
    "a failure too many": (False, (0, 3, "e", True), (10, 23, "e", True, True, True)),
    "both": (True, (1, 3, "e", True), (11, 23, "e", True, True, True)),
    "nothing": (False, (0, 0, None, False), (10, 20, "old", False, False, False)),
    "nothing, it is open": (True, (0, 0, None, True), (10, 20, "old", True, True, False)),
    "nothing, others say it is open": (True, (0, 0, None, False), (10, 20, "old", True, False, False)),
    "a success closes it": (True, (1, 0, None, False), (11, 20, None, False, False, True)),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTES)
def test_what_is_noted_of_one(world: Hooks, name: str) -> None:
    is_open, said, after = NOTES[name]
    world.conn.execute(
        "update gapless.webhook_state set delivered = 10, failed = 20, last_error = 'old',"
        " last_ts = '2001-01-01Z', circuit_ts = case when %s then '2001-01-01Z'::timestamptz end",
        [is_open],
    )
    query = (
        "select delivered, failed, last_error, circuit_ts is not null, probe_ts is not null,"
        " last_ts > '2001-01-01Z' from gapless.webhook_state where (name = %s) = %s"
    )
    beside = world.all(query, OWN, False)
    world.conn.execute("select gapless.note_webhook(%s, %s, %s, %s, %s)", [OWN, *said])
    assert world.all(query, OWN, True) == [after]
    assert world.all(query, OWN, False) == beside
    if is_open and after[3]:
        assert world.value("select bool_and(circuit_ts = '2001-01-01Z') from gapless.webhook_state")


def test_what_is_noted_of_several(world: Hooks) -> None:
    for _ in range(2):
        world.conn.execute(
            "select gapless.note_webhooks(%s, '{1,2}', '{3,4}', %s)",
            [[SHARED, NEIGHBOUR], ["e", None]],
        )
    query = "select name, delivered, failed, last_error from gapless.webhook_state where last_ts > '2001-01-01Z'"
    assert sorted(world.all(query)) == [(SHARED, 2, 6, "e"), (NEIGHBOUR, 4, 8, None)]
    world.conn.execute("select gapless.note_webhooks(%s, '{1}', '{0}', '{null}')", [[SHARED]])
    assert sorted(world.all(query)) == [(SHARED, 3, 6, None), (NEIGHBOUR, 4, 8, None)]


# Which are removed; the groups and the webhooks that are left, and how many that were removed.
PURGED: dict[str, tuple[list[str], set[str]]] = {
    "one of its own": ([OWN], {f"webhook-{OWN}"}),
    "one of two that share": ([SHARED], set()),
    "both of a topic": ([SHARED, NEIGHBOUR], {"webhooks-orders"}),
    "all of both kinds": ([OWN, SHARED, NEIGHBOUR], {f"webhook-{OWN}", "webhooks-orders"}),
    "of two topics": (["other-s1", SHARED], set()),
}  # fmt: skip


@pytest.mark.parametrize("name", PURGED)
def test_groups_of_removed_ones_are_dropped(world: Hooks, name: str) -> None:
    removed, dropped = PURGED[name]
    groups = {row[0] for row in world.all("select group_id from gapless.consumer_group")}
    hooks = {row[0] for row in world.all("select name from gapless.webhook")}
    for each in removed:
        assert world.value("select gapless.remove_webhook(%s)", each) is True
    assert world.value("select gapless.purge_webhooks()") == 0
    left = {row[0] for row in world.all("select group_id from gapless.consumer_group")}
    assert left == groups - dropped
    assert {row[0] for row in world.all("select name from gapless.webhook")} == hooks - set(removed)
    shared = set(removed) & {"other-s1", SHARED, NEIGHBOUR}
    subscribed = {
        row[0] for row in world.all("select name from gapless.subscription where group_id <> 'g'")
    }
    assert not shared & subscribed


def test_one_that_is_worked_for_is_purged_later(world: Hooks) -> None:
    """The others at once."""
    for each in (OWN, "orders-o2"):
        world.value("select gapless.remove_webhook(%s)", each)
    member = "00000000-0000-0000-0000-00000000000a"
    world.conn.execute(
        "insert into gapless.member (member_id, name, ttl, expires_at, backend_pid)"
        " values (%s, 'm', '1 hour', 'infinity', 0)",
        [member],
    )
    world.conn.execute(
        "insert into gapless.member_group (member_id, group_id, topic_id)"
        " select %s, 'webhook-orders-o1', gapless.topic_id('orders')",
        [member],
    )
    assert world.value("select gapless.purge_webhooks()") == 1
    assert world.all("select name from gapless.webhook where removed_ts is not null") == [(OWN,)]


def test_who_delivers_is_counted_by_the_locks_of_its_group(world: Hooks) -> None:
    lock = "select pg_advisory_xact_lock({}, lease_no) from gapless.lease where group_id = %s"
    for number, group in [
        (7427003, f"webhook-{OWN}"),
        (7427004, "webhook-other-o1"),
        (7427003, "webhooks-orders"),
    ]:
        world.all(lock.format(number), group)
    counts = {
        group: world.value("select gapless.webhook_workers(%s)", group)
        for group in (f"webhook-{OWN}", "webhook-other-o1", "webhooks-orders", "webhook-orders-o2")
    }
    assert list(counts.values()) == [1, 0, 1, 0]


VALID = {
    "name": "a", "url": "https://a.b/c", "secrets": ["env:S"], "allow_http": False,
    "keeps_order": False, "concurrency": 1, "shared": False,
}  # fmt: skip
# What is said of a webhook, and why it is refused (None: it is not).
CHECKS: dict[str, tuple[dict[str, Any], str | None]] = {
    "a name": ({"name": "x" * 100}, None),
    "no name": ({"name": None}, "a name has"),
    "a long name": ({"name": "x" * 101}, "a name has"),
    "a name with a dot": ({"name": "a.b"}, "a name has"),
    "a long URL": ({"url": "https://" + "a" * 1992}, None),
    "one that is too long": ({"url": "https://" + "a" * 1993}, "give a URL"),
    "no URL": ({"url": None}, "give a URL"),
    "another protocol": ({"url": "ftp://a.b/"}, "give a URL"),
    "a space": ({"url": "https://a.b/c d"}, "give a URL"),
    "a user": ({"url": "https://u@a.b/"}, "give a URL"),
    "a fragment": ({"url": "https://a.b/#c"}, "give a URL"),
    "a backslash": ({"url": "https://a.b\\c"}, "give a URL"),
    "http": ({"url": "http://a.b/"}, "is not https"),
    "http, nothing is said": ({"url": "http://a.b/", "allow_http": None}, "is not https"),
    "http that is allowed": ({"url": "http://a.b/", "allow_http": True}, None),
    "https where http is allowed": ({"allow_http": True}, None),
    "no secrets": ({"secrets": None}, "give one secret"),
    "none of them": ({"secrets": []}, "give one secret"),
    "two secrets": ({"secrets": ["env:S", "file:/a"]}, None),
    "three secrets": ({"secrets": ["env:S"] * 3}, "give one secret"),
    "a secret that is none": ({"secrets": ["env:S", None]}, "a secret is given"),
    "a secret itself": ({"secrets": ["env:S", "abc"]}, "a secret is given"),
    "a long secret": ({"secrets": ["env:" + "S" * 496]}, None),
    "one that is longer": ({"secrets": ["env:" + "S" * 497]}, "a secret is given"),
    "no concurrency": ({"concurrency": None}, "concurrency is"),
    "concurrency 0": ({"concurrency": 0}, "concurrency is"),
    "concurrency 1000": ({"concurrency": 1000}, None),
    "concurrency 1001": ({"concurrency": 1001}, "concurrency is"),
    "a low rate": ({"rate": 0.01}, None),
    "a lower one": ({"rate": 0.009}, "rate is"),
    "a high rate": ({"rate": 100000}, None),
    "a higher one": ({"rate": 100001}, "rate is"),
    "one that is no number": ({"rate": "NaN"}, "rate is"),
    "no delays": ({"retry_delays_s": []}, None),
    "many delays": ({"retry_delays_s": [0] * 100}, None),
    "more delays": ({"retry_delays_s": [0] * 101}, "retry_delays_s are"),
    "a long delay": ({"retry_delays_s": [1, 2678400]}, None),
    "a longer one": ({"retry_delays_s": [1, 2678401]}, "retry_delays_s are"),
    "one below 0": ({"retry_delays_s": [1, -1]}, "retry_delays_s are"),
    "one that is none": ({"retry_delays_s": [1, None]}, "retry_delays_s are"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_what_a_webhook_may_be(world: Hooks, name: str) -> None:
    said, why = CHECKS[name]
    query = "select gapless.check_webhook(jsonb_populate_record(null::gapless.webhook, %s::jsonb))"
    wanted = json.dumps(VALID | said)
    if why is None:
        world.conn.execute(query, [wanted])
        return
    with pytest.raises(psycopg.Error, match=why) as found:
        world.conn.execute(query, [wanted])
    assert found.value.sqlstate == "GL400"
