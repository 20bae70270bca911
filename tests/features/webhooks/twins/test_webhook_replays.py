"""replay_webhook(): which units are set aside for one of the webhooks that share a group."""

from typing import Any

import pytest

from features.webhooks.twins.stopped import GROUP, STOP, hooks
from support.twins import Changes, Twins

__all__ = ["hooks"]  # fixtures

REPLAY = "create temp table told on commit drop as select gapless.replay_webhook('orders-s1', {}) as units"
ALL = "'2020-01-01Z'"
SEVENTH = "'2020-01-08Z'"  # and later are units of one event


def aside(changed: Changes) -> list[tuple[int, int]]:
    """Partition and first offset of each unit that is new, all in this group and topic."""
    names = [name.split() for name in changed if name.startswith("dead_letter ")]
    assert all(words[1:3] == [GROUP, "orders"] for words in names)
    return [(int(words[3]), int(words[4])) for words in names]


def replay(twins: Twins, since: str) -> list[tuple[int, int]]:
    changed = twins.changes(REPLAY.format(since))
    found = aside(changed)
    assert twins.value("select units from told") == len(found)
    assert {name.split()[0] for name in changed} <= {
        "dead_letter", "dead_letter_event", "dead_letter_key", "audit"
    }  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("since", "units"),
    [
        (ALL, [(p, n) for p in range(3) for n in (1, 3, 4, 7, 8) + (9,) * (p == 0)]),
        (SEVENTH, [(0, 7), (0, 8), (0, 9), (1, 7), (1, 8), (2, 7), (2, 8)]),
        ("'2020-01-10Z'", [(0, 9)]), ("'2020-01-10 00:00:00.000001Z'", []), ("'2030-01-01Z'", []),
    ],
)  # fmt: skip
def test_what_was_published_since_then_is_set_aside(
    hooks: Twins, since: str, units: list[Any]
) -> None:
    """To be sent at once, to that one alone; its subscription is asked."""
    assert replay(hooks, since) == units
    rows = hooks.conn.execute(
        "select distinct d.state, d.reason, s.name, s.topic_id from gapless.dead_letter d"
        " join gapless.dead_letter_event e using (group_id, topic_id, partition_id, first_offset)"
        " join gapless.subscription s on s.subscription_id = any (e.subscriptions)"
    ).fetchall()
    orders = hooks.topic_ids["orders"]
    assert rows == ([("waiting", "it is sent again", "orders-s1", orders)] if units else [])
    audit = hooks.conn.execute(
        "select group_id, topic_id, detail ->> 'name', (detail -> 'units')::int from gapless.audit"
        " where action = 'replay_webhook'"
    ).fetchall()
    assert audit == [(GROUP, orders, "orders-s1", len(units))]


# Where the group, or a webhook of it, is in a partition, and what is left of what was published since the seventh day.
PLACES: dict[str, tuple[str, int, int, list[int]]] = {
    "the group": ("seek", 1, 8, [7]),
    "the group, just there": ("seek", 1, 7, []),
    "the group, before": ("seek", 1, 3, []),
    "it rests": ("orders-s1", 1, 8, [7]),
    "it rests just there": ("orders-s1", 1, 7, []),
    "it rests before": ("orders-s1", 1, 2, []),
    "another one rests": ("orders-s2", 1, 2, [7, 8]),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_it_is_sent_anyway_is_not_set_aside(hooks: Twins, name: str) -> None:
    """From where it rests, if it does; and it rests still."""
    who, partition, offset, left = PLACES[name]
    if who == "seek":
        hooks.seek(offset, hooks.here(GROUP, partition))
    else:
        hooks.conn.execute(STOP, [partition, offset, GROUP, hooks.topic_ids["orders"], who])
    rows = "select ctid::text, from_offset from gapless.subscription_stop where reason = 'no'"
    before = hooks.conn.execute(rows).fetchall()
    found = replay(hooks, SEVENTH)
    assert who != "orders-s2" or hooks.conn.execute(rows).fetchall() == before, "not touched"
    assert [first for place, first in found if place == partition] == left
    assert [first for place, first in found if place != partition] == [7, 8, 9, 7, 8]


@pytest.mark.parametrize("group", [GROUP, "webhooks-other"])
def test_where_others_of_that_name_rest_does_not_matter(hooks: Twins, group: str) -> None:
    hooks.conn.execute(STOP, [1, 2, group, hooks.topic_ids["other"], "orders-s1"])
    assert len(replay(hooks, SEVENTH)) == 7


def test_a_thousand_are_looked_at_in_several_steps(hooks: Twins) -> None:
    """Here one event over and over."""
    hooks.conn.execute(
        "insert into gapless.log_segment (topic_id, partition_id, base_offset, last_offset, message_ids,"
        " unit_ends, run) select %s, 1, 9 + 200 * n, 208 + 200 * n, array_fill(s.message_ids[1], '{200}'),"
        " repeat('1', 200)::varbit, 1 from generate_series(0, 4) n, gapless.log_segment s"
        " where s.topic_id = %s and s.partition_id = 1 and s.base_offset = 7",
        [hooks.topic_ids["orders"]] * 2,
    )
    hooks.seek(1009, hooks.here(GROUP))
    found = [first for place, first in replay(hooks, SEVENTH) if place == 1]
    assert sorted(found) == list(range(7, 1009))


@pytest.mark.parametrize("more", [0, 1])
def test_so_many_at_a_time(hooks: Twins, more: int) -> None:
    """What is one too many is said to be; of what is not, what is missing from the log."""
    hooks.seek(100_007 - 5 + more, hooks.here(GROUP))
    said = {
        0: "offsets 7 to 1006 of partition 1 are missing from the log: its missed events cannot be read any more",
        1: "since then 100001 events were passed: at most 100000 at a time can be looked at again",
    }
    assert hooks.refused(REPLAY.format(SEVENTH)) == ("GL409", said[more])


@pytest.mark.parametrize(
    ("name", "state", "said"),
    [
        ("nobody", "GL404", 'there is no webhook "nobody": gapless webhooks lists them'),
        ("orders-own", "GL409",
         'webhook "orders-own" has a group of its own, which can be moved back: gapless seek webhook-orders-own'),
    ],
)  # fmt: skip
def test_which_cannot_be_sent_anything_again(
    hooks: Twins, name: str, state: str, said: str
) -> None:
    call = "select gapless.replay_webhook(%s, now())"
    assert hooks.refused(call, [name]) == (state, said)


def test_what_is_gone_is_not_sent_again(hooks: Twins) -> None:
    hooks.conn.execute(
        "insert into gapless.log_start values (%s, 1, 8, '2020-02-01Z')",
        [hooks.topic_ids["orders"]],
    )
    said = "events of orders/1 from 2020-01-08T00:00:00.000Z are not there any more: the earliest is of"
    assert hooks.refused(REPLAY.format(SEVENTH)) == ("GL400", f"{said} 2020-01-09T00:00:00.000Z")


def test_nobody_changes_a_subscription_meanwhile(hooks: Twins) -> None:
    hooks.conn.execute(REPLAY.format(SEVENTH))
    locked = (
        "select group_id, topic_id from gapless.group_filter where xmax = pg_current_xact_id()::xid"
    )
    assert hooks.conn.execute(locked).fetchall() == [(GROUP, hooks.topic_ids["orders"])]
