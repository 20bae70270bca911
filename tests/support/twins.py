"""Several topics, partitions and groups that are alike, and the changes that a call makes.

They are for tests that compare all rows of all tables: if a call on one place changes another, its SQL lacks a
condition. Everything is undone at the end of a test, so a file of tests needs the twins once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import psycopg
import pytest
from psycopg import Connection, sql

from gapless.log.sequence import sequence

TOPICS = ("other", "orders")
GROUPS = ("mail", "billing")
QUEUES = ("auditor", "sender")
# For each partition: runs of the sequencer, of units, of event types.
LOG = (
    (("a", "b"), ("order.paid",)),
    (("a", "orderXpaid", "b"),),
    (("b",), ("a",)),
)
TIMES = ("_ts", "_at", "since")  # ends of columns with times, whose values are not compared
SEEKS = "select set_config('gapless.seeking', pg_current_xact_id()::text, true)"
SEEKS_NO_MORE = "select set_config('gapless.seeking', '', true)"
PUBLISH = (
    "insert into gapless.outbox_message_t (topic_id, event_type, key, payload)"
    " values (gapless.topic_id(%s), %s, %s, '{\"n\": 1}')"
)
PRIMARY_KEYS = """
select c.relname::text, array_agg(a.attname::text order by k.n)
from pg_class c
join pg_index i on i.indrelid = c.oid and i.indisprimary
cross join lateral unnest(i.indkey::int2[]) with ordinality as k (attnum, n)
join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
where c.relnamespace = 'gapless'::regnamespace and c.relkind = 'r' and not c.relispartition
group by 1
"""
# A function keeps its plan over rollbacks: planning some sixty tables takes ten times as long as reading them.
READ_ALL = "create function pg_temp.all_rows() returns setof text language plpgsql as {}"
READ = "select {} || (to_jsonb(t) - 'error_form')::text from gapless.{} t"
Row = dict[str, Any]
Changes = dict[str, dict[str, tuple[Any, Any]]]


class Twins:
    """Topics other and orders, each of three partitions with offsets 1 to 8; two groups, two queues.

    Only the first partition of orders has offset 9.
    """

    def __init__(self, conn: Connection[Any]) -> None:
        self.conn = conn
        for topic in TOPICS:
            self._make(topic)
        self.topic_ids = {each: self.value("select gapless.topic_id(%s)", each) for each in TOPICS}
        self.leases = {
            (group, topic, partition): lease
            for group, topic, partition, lease in conn.execute(
                "select l.group_id, t.name, l.partition_id, l.lease_no"
                " from gapless.lease l join gapless.topic t using (topic_id)"
            )
        }
        keys = [self._key(partition) for partition in range(3)]
        for run in LOG:
            for unit in run:
                with conn.transaction():
                    for event_type, topic, key in product(unit, TOPICS, keys):
                        conn.execute(PUBLISH, [topic, event_type, key])
            self._sequence()
        conn.execute(PUBLISH, ["orders", "late", keys[0]])
        self._sequence()
        self._primary_keys: dict[str, list[str]] = dict(conn.execute(PRIMARY_KEYS).fetchall())
        reads = (
            sql.SQL(READ).format(f"{table} ", sql.Identifier(table)) for table in self._primary_keys
        )
        body = sql.SQL("begin return query {}; end").format(sql.SQL(" union all ").join(reads))
        conn.execute(sql.SQL(READ_ALL).format(body.as_string(conn)))

    def _make(self, topic: str) -> None:
        self.conn.execute("select gapless.create_topic(%s, 3)", [topic])
        for group in GROUPS:
            self.conn.execute("select gapless.create_group(%s, %s)", [group, topic])
        for group in QUEUES:
            queue = "select gapless.create_group(%s, %s, mode => 'queue', block => 4)"
            self.conn.execute(queue, [group, topic])

    def _sequence(self) -> None:
        while sequence(self.conn):
            pass

    def _key(self, partition: int) -> str:
        return str(
            self.value(
                "select 'k' || n from generate_series(1, 100) n"
                " where gapless.partition_of('k' || n, 3) = %s limit 1",
                partition,
            )
        )

    def value(self, statement: str, *params: object) -> Any:
        (row,) = self.conn.execute(statement, params).fetchall()
        return row[0]

    def seek(self, next_offset: int, where: str = "true") -> None:
        """Move groups there, with failed attempts at it."""
        self.conn.execute(SEEKS)
        self.conn.execute(
            sql.SQL(
                "update gapless.consumer_offsets"
                " set next_offset = {0}, attempt_offset = {0}, attempts = 2 where {1}"
            ).format(next_offset, sql.SQL(where))
        )
        self.conn.execute(SEEKS_NO_MORE)

    def here(self, group: str = "billing", partition: int = 1) -> str:
        """Return the condition for a row of the group in a partition of orders."""
        topic_id = self.topic_ids["orders"]
        return f"group_id = '{group}' and topic_id = {topic_id} and partition_id = {partition}"

    def lose(self, *offsets: int) -> None:
        """Delete these events, in every partition."""
        self.conn.execute(
            "delete from gapless.outbox_message_t o using gapless.log_segment s,"
            " unnest(%s::bigint[]) lost where o.id = s.message_ids[lost - s.base_offset + 1]",
            [list(offsets)],
        )

    def refused(self, statement: str, params: Any = None) -> tuple[str, str]:
        """Run a statement that must fail; return SQLSTATE and message."""
        with pytest.raises(psycopg.Error) as caught, self.conn.transaction():
            self.conn.execute(statement, params)
        return caught.value.sqlstate or "", caught.value.diag.message_primary or ""

    def changes(self, statement: str, params: Any = None) -> Changes:
        """Run a statement; return the columns of the rows it changed, from one value to another.

        Rows are named by their table and primary key; each column of a new or removed row counts.
        """
        before = self._all()
        self.conn.execute(statement, params)
        after = self._all()
        gone, come = self._named(before - after), self._named(after - before)
        changed: Changes = {}
        for name in sorted(gone.keys() | come.keys()):
            was, now = gone.get(name, {}), come.get(name, {})
            changed[name] = {
                column: (was.get(column), now.get(column))
                for column in sorted(was.keys() | now.keys())
                if was.get(column) != now.get(column) and not column.endswith(TIMES)
            }
        return changed

    def _all(self) -> set[str]:
        """Return every row, after the name of its table."""
        return {row for (row,) in self.conn.execute("select pg_temp.all_rows()")}

    def _named(self, rows: set[str]) -> dict[str, Row]:
        names = {str(number): name for name, number in self.topic_ids.items()}
        found = {}
        for each in rows:
            table, _, text = each.partition(" ")
            row = json.loads(text)
            key = [
                names.get(str(row[column]), "?") if column == "topic_id" else str(row[column])
                for column in self._primary_keys[table]
            ]
            if table == "audit":
                key = [row["action"], row["group_id"], names.get(str(row["topic_id"]))]
                key = [str(each) for each in (*key, row["partition_id"])]
            name = " ".join([table, *key])
            assert name not in found, f"two of {name}"
            found[name] = {column: _plain(value) for column, value in row.items()}
        return found

    @contextmanager
    def undone(self) -> Iterator[Twins]:
        """Undo all changes at the end of the block."""
        with self.conn.transaction(force_rollback=True):
            yield self


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value
