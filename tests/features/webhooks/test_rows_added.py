"""What add_webhook() and share_webhook() write of a webhook, and what they refuse, beside others like it."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from features.webhooks.hooks import NEIGHBOUR, OWN, REMOVED, SHARED, Hooks, shared, world
from gapless.db.connect import connect
from support.blocked import until_blocked

__all__ = ["shared", "world"]

PLAIN: dict[str, Any] = {
    "topic_id": "orders", "url": "https://x.y/z", "secrets": ["env:T"], "allow_http": False,
    "keeps_order": False, "concurrency": 16, "rate": None, "retry_delays_s": None, "shared": False,
}  # fmt: skip
NO_CHOICE = (
    'webhook "new": one that shares a group has no order, concurrency, retries or start of its own:'
    " leave shared out, and it has a group of its own"
)
NOT_SHARED = 'webhook "new": only one that shares a group has values to match or an SQL condition'


def add(world: Hooks, name: str = "new", topic: str = "orders", **said: Any) -> Any:
    """Add one by what is said, beside its URL and secret."""
    given = {"url": "https://x.y/z", "secrets": ["env:T"], **said}
    words = ", ".join(f"{key} => %({key})s" for key in given)
    query = f"select gapless.add_webhook(%(name)s, %(topic)s, {words})"
    ((is_new,),) = world.conn.execute(query, {"name": name, "topic": topic, **given}).fetchall()
    return is_new


def refused(world: Hooks, *args: Any, **said: Any) -> tuple[str | None, str | None]:
    with pytest.raises(psycopg.Error) as found, world.conn.transaction():
        add(world, *args, **said)
    return found.value.sqlstate, found.value.diag.message_primary


def row(world: Hooks, name: str) -> dict[str, Any]:
    query = (
        "select to_jsonb(w) || jsonb_build_object('topic_id', t.name) from gapless.webhook w"
        " join gapless.topic t using (topic_id) where w.name = %s"
    )
    found: dict[str, Any] = world.value(query, name)
    return {key: found[key] for key in PLAIN}


ADDED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing said": ({}, {}),
    "nulls said": (
        {"allow_http": None, "keeps_order": None, "shared": None, "concurrency": None}, {},
    ),
    "all said": (
        {"allow_http": True, "keeps_order": True, "concurrency": 3, "rate": 2.5, "retry_delays_s": [4]},
        {"allow_http": True, "keeps_order": True, "concurrency": 3, "rate": 2.5, "retry_delays_s": [4]},
    ),
    "shared": ({"shared": True}, {"shared": True}),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDED)
def test_what_is_written_of_a_new_one(world: Hooks, name: str) -> None:
    said, differs = ADDED[name]
    before = world.rows()
    assert add(world, **said) is True
    assert row(world, "new") == PLAIN | differs
    group = "webhooks-orders" if said.get("shared") else "webhook-new"
    new = [json.loads(each) | {"table": table} for table, each in world.rows() - before]
    assert [each["name"] for each in new if each["table"] == "webhook_state"] == ["new"]
    assert [each["group_id"] for each in new if each.get("action") == "webhook"] == [group]
    groups = [each["group_id"] for each in new if each["table"] == "consumer_group"]
    assert groups == ([] if said.get("shared") else [group])


@pytest.mark.parametrize("name", [OWN, SHARED])
def test_what_is_written_of_one_that_is_there(world: Hooks, name: str) -> None:
    """It stays what it is, at its place; its neighbours are as they were."""
    same = {"shared": name == SHARED}
    before = world.rows()
    assert add(world, name, rate=7, allow_http=True, url="http://x.y/", **same) is False
    changed = {"rate": 7, "allow_http": True, "url": "http://x.y/"}
    assert row(world, name) == PLAIN | same | changed
    gone = [json.loads(each) for _, each in before - world.rows()]
    assert {each.get("name") for each in gone} <= {name, None}
    assert add(world, name, **same) is False
    assert row(world, name) == PLAIN | same


@pytest.mark.parametrize("start", ["earliest", "latest", None])
def test_where_one_with_a_group_of_its_own_begins(world: Hooks, start: str | None) -> None:
    """Once: then it goes on where it is."""
    world.conn.execute(
        "insert into gapless.log_segment (topic_id, partition_id, base_offset, last_offset, message_ids,"
        " unit_ends, run) values (gapless.topic_id('orders'), 1, 1, 2, '{1,2}', '11', 1)"
    )
    at = "select next_offset from gapless.consumer_offsets where group_id = 'webhook-new' and partition_id = 1"
    said = {"start": start} if start else {}
    add(world, **said)
    assert world.value(at) == (1 if start == "earliest" else 3)
    add(world, start="earliest")
    assert world.value(at) == (1 if start == "earliest" else 3)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({}, []), ({"event_types": ["a.*"]}, [(["a.*"], None)]), ({"condition": "$.n == 1"}, [(None, '($."n" == 1)')]),
        ({"event_types": ["b"], "condition": "$.n == $m", "params": '{"m": 1}'}, [(["b"], '($."n" == $"m")')]),
    ],
)  # fmt: skip
def test_which_events_one_with_a_group_of_its_own_gets(
    world: Hooks, said: dict[str, Any], kept: list[Any]
) -> None:
    """What was said before is forgotten."""
    query = (
        "select event_types, condition::text from gapless.group_filter where group_id = 'webhook-{}'"
        " and (event_types is not null or condition is not null)"
    )
    for each in ("new", "orders-o2"):
        add(world, each, event_types=["c"], condition="$.m == 2")
        beside = world.all(query.format("new"))
        add(world, each, **said)
        assert world.all(query.format(each)) == kept
        assert each == "new" or world.all(query.format("new")) == beside


ALONE = {
    "keeps_order": True, "concurrency": 16, "retry_delays_s": [], "start": "earliest",
}  # fmt: skip


@pytest.mark.parametrize("word", ALONE)
def test_what_only_one_with_a_group_of_its_own_has(world: Hooks, word: str) -> None:
    assert refused(world, shared=True, **{word: ALONE[word]}) == ("GL400", NO_CHOICE)
    assert add(world, **{word: ALONE[word]}) is True


SHARES = {"matches": '{"host_id": "host_id"}', "sql_condition": "true"}


@pytest.mark.parametrize("word", SHARES)
def test_what_only_one_that_shares_a_group_has(world: Hooks, word: str) -> None:
    assert refused(world, **{word: SHARES[word]}) == ("GL400", NOT_SHARED)
    assert add(world, shared=True, params='{"host_id": 1}', **{word: SHARES[word]}) is True


REFUSED: dict[str, tuple[str, tuple[str, str], dict[str, Any], str]] = {
    "no such URL": ("", ("new", "orders"), {"url": "ftp://x"}, "give a URL"),
    "removed": (OWN, (OWN, "orders"), {}, "is being removed"),
    "removed, and shared": (SHARED, (SHARED, "orders"), {"shared": True}, "is being removed"),
    "of another topic": ("", (OWN, "other"), {}, "is of another topic"),
    "it shares a group": ("", (SHARED, "orders"), {}, "shares a group: remove it first"),
    "it has a group": ("", (OWN, "orders"), {"shared": True}, "has a group of its own: remove"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(world: Hooks, name: str) -> None:
    gone, place, said, why = REFUSED[name]
    world.conn.execute(REMOVED, [gone])
    state, text = refused(world, *place, **said)
    assert state == ("GL400" if name == "no such URL" else "GL409")
    assert why in str(text)


@pytest.fixture
def others(shared: Hooks, module_dsn: str) -> Iterator[list[Connection[Any]]]:
    assert shared
    with connect(module_dsn, role="test") as one, connect(module_dsn, role="test") as two:
        yield [one, two]


def test_who_changes_one_waits_for_who_has_it(world: Hooks, others: list[Connection[Any]]) -> None:
    """It may be removed at this moment."""
    eye, second = others
    lock = "select from gapless.webhook where name = %s for no key update"
    query = "select gapless.add_webhook(%s, 'other', 'https://x.y/', '{env:T}')"
    with ThreadPoolExecutor(1) as pool:
        with world.conn.transaction(force_rollback=True):
            world.conn.execute(lock, [OWN])
            call = pool.submit(second.execute, query, [OWN])
            until_blocked(eye, second, call)
        with pytest.raises(psycopg.Error, match="of another topic"):
            call.result()


# What is said, and what the subscription is then: values to match, params, jsonpath, SQL condition.
TYPES = "coalesce(e.event_type, '') ~ (s.params ->> 'gapless-types')"
SUBSCRIBED: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "all": ({}, ([], {}, "(1 == 1)", None)),
    "some": ({"condition": "$.n == 1"}, ([], {}, '($."n" == 1)', None)),
    "types": (
        {"event_types": ["a.b", "c*"]}, ([], {"gapless-types": r"^(a\.b|c.*)$"}, None, TYPES),
    ),
    "types and a condition": (
        {"event_types": ["a"], "condition": "$.n == 1"},
        ([], {"gapless-types": "^(a)$"}, '($."n" == 1)', TYPES),
    ),
    "types and params": (
        {"event_types": ["a"], "params": '{"m": 1}'}, ([], {"gapless-types": "^(a)$", "m": 1}, None, TYPES),
    ),
    "SQL": ({"sql_condition": "e.key = 'a'"}, ([], {}, None, "e.key = 'a'")),
    "types and SQL": (
        {"event_types": ["a"], "sql_condition": "e.key = 'a' or true"},
        ([], {"gapless-types": "^(a)$"}, None, f"(e.key = 'a' or true) and {TYPES}"),
    ),
    "values": (
        {"matches": '{"m": "key"}', "params": '{"m": 1}'}, (["m"], {"m": 1}, None, None),
    ),
    "no values": ({"matches": "{}"}, ([], {}, "(1 == 1)", None)),
}  # fmt: skip


@pytest.mark.parametrize("name", SUBSCRIBED)
def test_which_events_one_that_shares_a_group_gets(world: Hooks, name: str) -> None:
    said, found = SUBSCRIBED[name]
    assert add(world, shared=True, **said) is True
    query = (
        "select f.match_names, s.params, f.condition::text, c.expression from gapless.subscription s"
        " join gapless.subscription_form f using (form_id)"
        " left join gapless.condition c on c.digest = f.condition_digest"
        " where s.group_id = 'webhooks-orders' and s.name = 'new'"
    )
    assert world.all(query) == [found]


# What is there of a third topic before its first webhook that shares a group.
TAKEN = {
    "a group of that name": "",
    "and a webhook with a group of its own": "select gapless.add_webhook('own', 'third', 'https://a.b/c', '{env:S}')",
    "and a subscription of it": "select gapless.subscribe('webhooks-third', 'third', 'no', condition => '1 == 1')",
    "and one of another group": "select gapless.subscribe('g', 'orders', 'new', condition => '1 == 1')",
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_a_group_that_is_none_of_webhooks_is_not_taken(world: Hooks, name: str) -> None:
    world.conn.execute("select gapless.create_topic('third', 1)")
    world.conn.execute("select gapless.create_group('webhooks-third', 'third')")
    if TAKEN[name]:
        world.conn.execute(TAKEN[name])
    said = 'there is a group "webhooks-third", which is none of webhooks: drop it, for they share one of that name'
    assert refused(world, "new", "third", shared=True) == ("GL409", said)


def test_the_first_that_shares_a_group_makes_it_and_may_be_changed(world: Hooks) -> None:
    world.conn.execute("select gapless.create_topic('third', 1)")
    assert add(world, "new", "third", shared=True) is True
    assert add(world, "new", "third", shared=True, rate=3) is False
    assert add(world, "newer", "third", shared=True) is True
    query = "select name from gapless.subscription where group_id = 'webhooks-third' order by 1"
    assert world.all(query) == [("new",), ("newer",)]
    assert add(world, NEIGHBOUR, shared=True, rate=3) is False
