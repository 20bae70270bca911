"""What groups, subscriptions, schemas and webhooks of before said is said after an upgrade, too.

All that is in the database was put there by the functions of that state: tests/migration/states.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection

import gapless
from gapless import handler, ops, testing
from gapless.consume.unit import Unit
from gapless.db import migrate as migrations
from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.errors import InvalidPayloadError
from gapless.log import schemas
from gapless.log.compaction import compact
from gapless.webhooks.fleet import Webhooks
from migration.states import lay_out, states
from support.endpoint import SECRET, Server, serving
from support.shared_webhooks import LOCAL, numbers_at

STATES = [state for state in states() if state >= "0035"]
STATES_WITH_COMPACTION = [state for state in STATES if state >= "0036" and "_without_" not in state]
STATES_WITH_SHARED = [state for state in STATES if state >= "0040"]
SUBSCRIBE = """
select gapless.subscribe('mails', 'orders', name, match, params, condition, sql_condition => asked)
from (values
  ('match', '{"shop": "$.shop"}'::jsonb, '{"shop": 1}'::jsonb, null, null),
  ('jsonpath', '{}', '{"min": 2}', '$.n > $min', null),
  ('sql', '{}', '{"min": 2}', null, '(e.payload ->> ''n'')::int > (s.params ->> ''min'')::int'),
  ('stopped', '{}', '{"by": 0}', null, '(e.payload ->> ''n'')::int / (s.params ->> ''by'')::int > 1')
) s (name, match, params, condition, asked)
"""
STOP = """
select gapless.stop_subscriptions(
  'mails', %(topic)s, 0, %(epoch)s, %(token)s, array[s.subscription_id], array['division by zero']
)
from gapless.subscription s where s.name = 'stopped'
"""
FILTERED = (
    "select gapless.create_group('filtered', 'orders')",
    "select gapless.set_filter('filtered', 'orders', array['order.*'], '$.n > $min', '{\"min\": 1}')",
)
SCHEMAS = """
select gapless.set_schema('orders', schema, 'order.made', 'none')
from (values
  ('{"required": ["shop"]}'::json),
  ('{"properties": {"n": {"type": "integer"}}, "required": ["n"]}')
) s (schema)
"""


@pytest.fixture
def old(
    request: pytest.FixtureRequest, empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Connection]:
    """A session in a database of a state, with a topic of one partition."""
    monkeypatch.setattr(schemas, "LOOK_S", 0.0)
    folder = lay_out(states()[request.param], tmp_path / "sql")
    with connect(empty_dsn, role="test") as conn:
        with monkeypatch.context() as patch:
            patch.setattr(migrations, "sql_root", lambda: folder)
            migrate(conn)
        conn.execute("select gapless.create_chunks()")
        conn.execute("select gapless.create_topic('orders', 1)")
        yield conn


def _value(conn: Connection, statement: str, params: Any = None) -> Any:
    row = conn.execute(statement.encode(), params).fetchone()
    return row and row[0]


def _publish(conn: Connection, n: Any, *, event_type: str = "order.made", key: str = "k") -> None:
    """Publish an event by SQL: n, of shop 1 where it is odd."""
    conn.execute(
        "select gapless.publish('orders', json_build_object('n', %s::int, 'shop', %s::int),"
        " event_type => %s, key => %s)",
        [n, n % 2, event_type, key],
    )


def _stop(conn: Connection) -> None:
    """Stop a subscription, as the worker does that owns the partition."""
    topic = _value(conn, "select gapless.topic_id('orders')")
    where = {"member": uuid4(), "token": uuid4(), "topic": topic}
    conn.execute(
        "select gapless.join_groups(%(member)s, gapless.next_member_no(), 'old', 10, 1, '1 hour',"
        " array['mails'], array['orders'])",
        where,
    )
    conn.execute("select gapless.sync('mails', %(topic)s)", where)
    acquire = "select gapless.acquire('mails', %(topic)s, 0, %(member)s, %(token)s)"
    where["epoch"] = _value(conn, acquire, where)
    install = "select gapless.install_fence('mails', %(topic)s, 0, %(epoch)s, %(token)s)"
    conn.execute(install.encode(), where)
    assert _value(conn, STOP, where) == 1
    assert _value(conn, "select gapless.release('mails', %(topic)s, 0, %(token)s)", where)
    conn.execute("select gapless.leave_group(%(member)s)", where)


def _handled(conn: Connection, group: str) -> list[tuple[int, list[str]]]:
    """Let the group handle what there is: the events it was given, and for which subscriptions."""
    told: list[tuple[int, list[str]]] = []

    @handler(topic="orders", delivery="at-least-once")
    def tell(unit: Unit) -> None:
        told.extend(
            (event.payload["n"], sorted(each.name for each in event.subscriptions))
            for event in unit
        )

    testing.drain(conn.info.dsn, tell, group=group)
    return told


@pytest.mark.long
@pytest.mark.parametrize("old", STATES, indirect=True)
def test_subscriptions_filters_and_schemas(old: Connection) -> None:
    old.execute("select gapless.create_group('mails', 'orders')")
    old.execute(SUBSCRIBE.encode())
    for text in FILTERED:
        old.execute(text.encode())
    assert [version for (version,) in old.execute(SCHEMAS.encode())] == [1, 2]
    _publish(old, 1)
    _publish(old, 2)
    old.execute("select gapless.sequence_events()")
    _stop(old)

    migrate(old)
    with pytest.raises(InvalidPayloadError, match=r"schema 2 of orders/order\.made"):
        gapless.publish(old, "orders", {"n": "x", "shop": 1}, event_type="order.made")
    gapless.publish(old, "orders", {"n": 3}, event_type="order.made")  # version 1 refused this
    gapless.publish(old, "orders", {"n": 4, "shop": 1}, event_type="stock.made")
    assert [(each.event_type, each.version) for each in ops.list_schemas(old)] == [
        ("order.made", 1),
        ("order.made", 2),
    ]
    assert _handled(old, "mails") == [
        (1, ["match"]),
        (3, ["jsonpath", "sql"]),
        (4, ["jsonpath", "match", "sql"]),
    ], "the stopped one is not asked, and 2 is nobody's"
    assert _handled(old, "filtered") == [(2, []), (3, [])]
    old.execute(SUBSCRIBE.replace('"by": 0', '"by": 1').encode())
    assert _value(old, "select count(*) from gapless.subscription_stop") == 1, "until it is resumed"
    ops.resume_subscription(old, ops.GroupPlace.parse("mails/orders"), "stopped")
    assert _handled(old, "mails") == [(n, ["stopped"]) for n in (2, 3, 4)]


@pytest.mark.long
@pytest.mark.parametrize("old", STATES_WITH_COMPACTION, indirect=True)
def test_compaction(old: Connection) -> None:
    old.execute("select gapless.set_compaction('orders', true)")
    for n, key in enumerate("aba"):
        _publish(old, n, key=key)
    old.execute("select gapless.sequence_events()")
    while _value(old, "select gapless.compact()"):
        pass
    latest = "select jsonb_object_agg(event_key, payload -> 'n') from gapless.latest('orders')"
    assert _value(old, latest) == {"a": 2, "b": 1}

    migrate(old)
    assert _value(old, latest) == {"a": 2, "b": 1}
    gapless.publish(old, "orders", {"n": 5}, key="b")
    gapless.publish(old, "orders", {"n": 6}, key="c")
    old.execute("select gapless.sequence_events()")
    while compact(old):
        pass
    assert _value(old, latest) == {"a": 2, "b": 5, "c": 6}
    old.execute("select gapless.create_group('late', 'orders', 'latest-per-key')")
    assert sorted(n for n, _ in _handled(old, "late")) == [2, 5, 6]


def _add_webhook(conn: Connection, server: Server, name: str, said: str) -> None:
    add = (
        "select gapless.add_webhook(%s, 'orders', %s, array['env:HOOK'], allow_http => true, "
        + said
        + ")"
    )
    assert _value(conn, add, [name, f"{server.url}/{name}"])


def _deliver(conn: Connection) -> None:
    """Deliver what is due, to those whose group is not paused."""
    for each in Webhooks(LOCAL, conn.info.dsn).handlers(conn):
        if not _value(
            conn, "select count(*) from gapless.group_pause where group_id = %s", [each.group]
        ):
            testing.drain(conn.info.dsn, each, settings=LOCAL)


@pytest.mark.long
@pytest.mark.parametrize("old", STATES, indirect=True)
def test_webhooks(old: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", SECRET)
    said = "event_types => array['order.*'], condition => '$.n > $min', params => '{\"min\": 1}'"
    with serving() as server:
        _add_webhook(old, server, "own", said)
        _add_webhook(old, server, "rests", said)
        assert _value(old, "select gapless.pause_webhook('rests')")
        _publish(old, 1)
        _publish(old, 2)

        migrate(old)
        _publish(old, 3)
        _publish(old, 4, event_type="stock.made")
        _deliver(old)
        assert (numbers_at(server, "own"), numbers_at(server, "rests")) == ([2, 3], [])
        assert ops.resume_webhook(old, "rests")
        _deliver(old)
        assert (numbers_at(server, "own"), numbers_at(server, "rests")) == ([2, 3], [2, 3])


@pytest.mark.long
@pytest.mark.parametrize("old", STATES_WITH_SHARED, indirect=True)
def test_webhooks_that_share_a_group(old: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", SECRET)
    shop = """shared => true, matches => '{"shop": "$.shop"}', params => '{"shop": 1}'"""
    with serving() as server:
        _add_webhook(old, server, "shop", shop)
        _add_webhook(old, server, "rests", shop)
        large = "shared => true, sql_condition => '(e.payload ->> ''n'')::int > 2'"
        _add_webhook(old, server, "large", large)
        assert _value(old, "select gapless.pause_webhook('rests')")
        _publish(old, 1)
        _publish(old, 2)

        migrate(old)
        _publish(old, 3)
        _publish(old, 4)
        _deliver(old)
        assert (numbers_at(server, "shop"), numbers_at(server, "large")) == ([1, 3], [3, 4])
        assert numbers_at(server, "rests") == []
        assert ops.resume_webhook(old, "rests")
        _deliver(old)
        assert numbers_at(server, "rests") == [1, 3]
        assert numbers_at(server, "shop") == [1, 3], "nothing twice"
