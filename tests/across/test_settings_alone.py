"""What is set for one group, topic or name is set there alone, as far as any table tells.

There is another one of each kind, just the same: groups with filters and with subscriptions of one name on
two topics, webhooks, schedules, keys, schemas. As twins, for what people set.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence

TOPICS = ("other", "orders")
ORDERS = "the id of orders"
# Rows without a group, a topic or a name of their own are told of with those of what they belong to.
ROWS = {
    "subscription_stop": "select to_jsonb(t) || jsonb_build_object('group_id', s.group_id,"
    " 'topic_id', s.topic_id, 'name', s.name)"
    " from gapless.subscription_stop t join gapless.subscription s using (subscription_id)",
    "guard_keys": "select null::jsonb where false",
    "condition": "select null::jsonb where false",  # by what it says: several may share one
}
SETUP = """
select gapless.create_group(g, t) from unnest('{other,orders}'::text[]) t,
  unnest('{billing,mail,crm,erp}'::text[]) g;
select gapless.set_filter(g, t, '{old}') from unnest('{other,orders}'::text[]) t,
  unnest('{billing,mail}'::text[]) g;
select gapless.subscribe(g, t, n, params => '{"min": 1}', condition => '$.n > $min',
  expires_after => '1 day')
from unnest('{other,orders}'::text[]) t, unnest('{crm,erp}'::text[]) g, unnest('{a,b}'::text[]) n;
update gapless.subscription set renewed_at = '0 s';
insert into gapless.subscription_stop (subscription_id, partition_id, from_offset, reason)
select s.subscription_id, 0, 1, 'raised' from gapless.subscription s;
select set_config('gapless.seeking', pg_current_xact_id()::text, true);
update gapless.consumer_offsets set next_offset = 4;
select gapless.set_expiry(g, '1 day') from unnest('{billing,mail}'::text[]) g;
select gapless.pause(g, t) from unnest('{other,orders}'::text[]) t, unnest('{billing,mail}'::text[]) g;
select gapless.set_schema(t, '{"type": "object"}', e)
from unnest('{other,orders}'::text[]) t, unnest('{x,y}'::text[]) e;
select gapless.add_schedule(n, 'orders', '@hourly') from unnest('{a,b}'::text[]) n;
select gapless.pause_schedule(n) from unnest('{paused,still}'::text[]) n,
  lateral gapless.add_schedule(n, 'orders', '@hourly');
select gapless.add_webhook(t || n, t, 'https://a.b/c', '{env:S}', shared => n like 's%')
from unnest('{other,orders}'::text[]) t, unnest('{o1,o2,s1,s2}'::text[]) n;
select gapless.create_api_key(repeat(n, 16), 'a key', sha256(n::bytea), '{operate}')
from unnest('{a,b}'::text[]) n;
"""
COMPACTED = "select gapless.set_compaction('other', true)"
READS_LATEST = (
    "update gapless.consumer_offsets set latest_upto = 9 where topic_id = gapless.topic_id('other')"
)


@dataclass(frozen=True)
class Deed:
    """A call, after others; every row that it changes has these columns so, if it has them."""

    call: str
    here: dict[str, Any]
    after: list[str] = field(default_factory=list)


def _group(group: str, **more: Any) -> dict[str, Any]:
    return {"group_id": group, "topic_id": ORDERS, **more}


def _webhook(name: str) -> dict[str, Any]:
    group = f"webhook-{name}" if name.endswith(("o1", "o2")) else "webhooks-orders"
    return {"name": name, "group_id": group, "topic_id": ORDERS}


OWN, SHARED = "orderso1", "orderss1"
DEEDS = {
    "set_filter": Deed("set_filter('billing', 'orders', '{new}')", _group("billing")),
    "clear_filter": Deed("clear_filter('billing', 'orders')", _group("billing")),
    "subscribe": Deed(
        "subscribe('crm', 'orders', 'c', condition => '$.n > 9')", _group("crm", name="c")
    ),
    "subscribe again": Deed(
        "subscribe('crm', 'orders', 'a', condition => '$.n > 9')", _group("crm", name="a")
    ),
    "unsubscribe": Deed("unsubscribe('crm', 'orders', 'a')", _group("crm", name="a")),
    "renew": Deed(
        "renew_subscription('crm', 'orders', 'a')",
        _group("crm", name="a"),
        ["update gapless.expiry_clock set watched = '1 hour'"],
    ),
    "resume_subscription": Deed(
        "resume_subscription('crm', 'orders', 'a')", _group("crm", name="a")
    ),
    "set_expiry": Deed("set_expiry('billing', '2 days')", {"group_id": "billing"}),
    "no expiry": Deed("set_expiry('billing', null)", {"group_id": "billing"}),
    "pause": Deed("pause('crm', 'orders')", _group("crm")),
    "resume": Deed("resume('billing', 'orders')", _group("billing")),
    "drop_group": Deed("drop_group('billing')", {"group_id": "billing"}),
    "set_direct": Deed("set_direct('orders')", {"topic_id": ORDERS}),
    "set_dedupe_window": Deed("set_dedupe_window('orders', 77)", {"topic_id": ORDERS}),
    "set_retention": Deed("set_retention('orders', 77, 'none', '{}')", {"topic_id": ORDERS}),
    "set_compaction": Deed("set_compaction('orders', true)", {"topic_id": ORDERS}, [COMPACTED]),
    "no compaction": Deed(
        "set_compaction('orders', false)",
        {"topic_id": ORDERS},
        [
            COMPACTED,
            "select gapless.set_compaction('orders', true)",
            READS_LATEST,
        ],
    ),
    "set_schema": Deed(
        """set_schema('orders', '{"type": "object", "title": "n"}', 'x')""",
        {"topic_id": ORDERS, "event_type": "x"},
    ),
    "remove_schema": Deed("remove_schema('orders', 'x')", {"topic_id": ORDERS, "event_type": "x"}),
    "add_schedule": Deed("add_schedule('a', 'orders', '@daily')", {"name": "a"}),
    "pause_schedule": Deed("pause_schedule('a')", {"name": "a"}),
    "resume_schedule": Deed("resume_schedule('paused')", {"name": "paused"}),
    "remove_schedule": Deed("remove_schedule('a')", {"name": "a"}),
    "pause_webhook": Deed(f"pause_webhook('{OWN}')", _webhook(OWN)),
    "stop_webhook": Deed(f"stop_webhook('{OWN}', 'gone')", _webhook(OWN)),
    "remove_webhook": Deed(f"remove_webhook('{OWN}')", _webhook(OWN)),
    "resume_webhook": Deed(
        f"resume_webhook('{OWN}')",
        _webhook(OWN),
        [f"select gapless.pause_webhook('{n}')" for n in (OWN, "orderso2")],
    ),
    "pause a shared one": Deed(f"pause_webhook('{SHARED}')", _webhook(SHARED)),
    "stop a shared one": Deed(f"stop_webhook('{SHARED}', 'gone', true)", _webhook(SHARED)),
    "remove a shared one": Deed(f"remove_webhook('{SHARED}')", _webhook(SHARED)),
    "resume a shared one": Deed(
        f"resume_webhook('{SHARED}')",
        _webhook(SHARED),
        [f"select gapless.pause_webhook('{n}')" for n in (SHARED, "orderss2")],
    ),
    "revoke_api_key": Deed("revoke_api_key(repeat('a', 16))", {"key_id": "a" * 16}),
}


class World:
    """Two of everything."""

    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn
        for topic in TOPICS:
            conn.execute("select gapless.create_topic(%s, 1)", [topic])
            for n in range(6):
                publish(conn, topic, NewEvent(payload={"n": n}, key="k"))
        sequence(conn)
        row = conn.execute("select gapless.topic_id('orders')").fetchone()
        assert row is not None
        self.topic_id = row[0]
        with conn.transaction():
            conn.execute(SETUP)  # type: ignore[arg-type]
        tables = conn.execute(
            "select relname from pg_class where relnamespace = 'gapless'::regnamespace"
            " and relkind = 'r' and not relispartition order by 1"
        )
        self.queries = {
            name: ROWS.get(name, f"select to_jsonb(t) from gapless.{name} t") for (name,) in tables
        }

    def rows(self) -> set[tuple[str, str]]:
        return {
            (table, json.dumps(row, sort_keys=True))
            for table, query in self.queries.items()
            for (row,) in self.conn.execute(query).fetchall()  # type: ignore[arg-type]
        }


@pytest.fixture(scope="module")
def shared(module_dsn: str) -> Iterator[World]:
    with connect(module_dsn, role="test") as conn:
        yield World(conn)


@pytest.mark.parametrize("name", DEEDS)
def test_it_is_done_here_alone(shared: World, name: str) -> None:
    deed = DEEDS[name]
    here = {
        column: shared.topic_id if value == ORDERS else value for column, value in deed.here.items()
    }
    with shared.conn.transaction(force_rollback=True):
        for statement in deed.after:
            shared.conn.execute(statement)  # type: ignore[arg-type]
        before = shared.rows()
        shared.conn.execute(f"select gapless.{deed.call}")  # type: ignore[arg-type]
        changed = shared.rows() ^ before
        assert changed
        elsewhere = [
            (table, row)
            for table, text in changed
            for row in [json.loads(text)]
            if any(row.get(column, value) != value for column, value in here.items())
        ]
        assert not elsewhere
