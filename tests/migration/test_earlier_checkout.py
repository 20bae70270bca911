"""A database of a checkout of before 0.1.0 is refused in a line, as it is; the remedy of docs/run/operations.md works."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from gapless import ops
from gapless.db.migrate import require_schema, script
from gapless.errors import SchemaError
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.clients import psql

PAGE = Path(__file__).parents[2] / "docs" / "run" / "operations.md"
# Of migrations it had others, and no baseline.
EARLIER = """
delete from gapless.migration where kind = 'tables';
insert into gapless.migration (kind, name, digest)
values ('migrations', '0001_log', 'x'), ('migrations', '0059_latest_topic', 'x');
"""
CATALOG = (
    "select (select jsonb_agg(to_jsonb(m) order by kind, name) from gapless.migration m),"
    " (select count(*) from pg_class), (select max(xmin::text::bigint) from pg_proc)"
)
EVENTS = (
    "select key, event_type, payload::jsonb, headers, host_id, user_id, transaction_id"
    " from generate_series(0, 3) p cross join lateral gapless.read('orders', p)"
    " where key = %s or %s::text is null and key is null"
    # Events without a key have no order among each other that the remedy could keep.
    " order by case when key is null then payload::text || transaction_id end, message_id"
)
KEYS = ("a", "b", None)


@pytest.fixture
def earlier(conn: Connection) -> Connection:
    conn.execute(EARLIER)
    return conn


@pytest.mark.parametrize("door", [require_schema, ops.install_schema, ops.plan_upgrade, script])
def test_each_door_names_the_remedy(door: Callable[[Connection], Any], earlier: Connection) -> None:
    before = earlier.execute(CATALOG).fetchone()
    with pytest.raises(SchemaError) as refused:
        door(earlier)
    said = str(refused.value)
    assert "\n" not in said
    assert (
        "made by a checkout of before 0.1.0, and is not upgraded: save its events with psql" in said
    )
    assert "## Earlier checkouts\n" in PAGE.read_text(), "the message names this section"
    assert earlier.execute(CATALOG).fetchone() == before


def test_its_events_are_saved_and_published_again(
    conn: Connection, dsn: str, tmp_path: Path
) -> None:
    ensure_topic(conn, "orders", partitions=4)
    for key in KEYS * 2:
        with conn.transaction():
            for payload in ('"a\\nb\\\\c"', '{\n "n": [1,\r\n 2.50],\t"x": null}'):
                conn.execute(
                    "select gapless.publish('orders', %s::json, key => %s, headers => '{\"h\": 1}')",
                    [payload, key],
                )
    sequence(conn)
    ops.alter_topic(conn, "orders", partitions=3)  # the keys are elsewhere from here on
    conn.execute(
        "select gapless.publish('orders', to_json(n), 'a', 't') from generate_series(1, 9) n"
    )
    sequence(conn)
    had = [conn.execute(EVENTS, [key, key]).fetchall() for key in KEYS]
    conn.execute(EARLIER)

    section = PAGE.read_text().partition("## Earlier checkouts\n")[2]
    save = section.partition("```sql\n")[2].partition("```")[0]
    saved = tmp_path / "orders.jsonl"
    saved.write_text(psql(dsn, save.replace(":'topic'", "'orders'")))
    ops.drop_schema(conn)
    ops.install_schema(conn)
    ensure_topic(conn, "orders", partitions=4)
    with saved.open("rb") as file:
        ops.publish_lines(conn, "orders", ops.JsonLines(file.fileno(), saved.name, ops.LineShape()))
    sequence(conn)
    assert [conn.execute(EVENTS, [key, key]).fetchall() for key in KEYS] == had
