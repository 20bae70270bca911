"""The same units set aside in every partition of every group of twins, and the changes that a call makes.

Rows are compared whole, with their times: a changed time is given in tens of seconds from now, or as "old".
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from psycopg import Connection

from gapless.db.connect import connect
from support.twins import Twins

TOKEN = "00000000-0000-4000-8000-000000000001"
OTHER = "00000000-0000-4000-8000-000000000002"
OLD = "timestamptz '2020-01-01 00:00+00'"
HERE = "billing orders 1"
# First offset: last offset and state. 3 and 7 are due.
UNITS = {
    1: (2, "dead"), 3: (3, "waiting"), 4: (6, "parked"), 7: (7, "waiting"), 8: (8, "discarded"),
}  # fmt: skip
# The columns that name a row of these tables, after group, topic and partition.
TABLES = {
    "audit": "t.action || ' ' || row_number() over (partition by t.group_id, t.topic_id order by t.audit_id)",
    "consumer_offsets": "''",
    "dead_letter": "t.first_offset",
    "dead_letter_event": "t.c_offset",
    "dead_letter_key": "encode(t.key_digest, 'escape') || ' ' || t.first_offset",
    "delivery": "t.first_offset",
    "group_pause": "''",
    "lease": "''",
}
OWN = (
    "update gapless.consumer_offsets set epoch = 5,"
    " token = case when {here} then '" + TOKEN + "' else '" + OTHER + "' end::uuid"
)
PLANT = f"""
insert into gapless.dead_letter (
  group_id, topic_id, partition_id, first_offset, last_offset, events, transaction_id, state, parks,
  attempts, crashes, next_attempt_ts, reason, exception, exception_class, sqlstate, worker, duration_ms,
  first_failed_ts, last_failed_ts, died_ts, closed_ts, discarded_by, discard_reason, timeline, epoch
)
select c.group_id, c.topic_id, c.partition_id, u.first, u.last, u.last - u.first + 1,
  md5(c::text || u.first)::uuid, u.state, true, 2, 1, case u.state when 'waiting' then {OLD} end,
  'why', 'trace', 'Error', 'P0001', 'worker', 1.5, {OLD}, {OLD},
  case when u.state in ('dead', 'discarded') then {OLD} end,
  case u.state when 'discarded' then {OLD} end, case u.state when 'discarded' then 'bob' end,
  case u.state when 'discarded' then 'of no use' end, 3, 7
from gapless.consumer_offsets c,
  unnest(%s::bigint[], %s::bigint[], %s::text[]) u (first, last, state)
"""
EVENTS = f"""
insert into gapless.dead_letter_event (
  group_id, topic_id, partition_id, c_offset, first_offset, message_id, key, transaction_id, event_type,
  payload, headers, created_ts, subscriptions
)
select d.group_id, d.topic_id, d.partition_id, o, d.first_offset, s.message_ids[o - s.base_offset + 1],
  'key', d.transaction_id, 'type', '{{"n": 1}}', '{{"h": 1}}', {OLD}, '{{1,2,3}}'
from gapless.dead_letter d
cross join lateral generate_series(d.first_offset, d.last_offset) o
join gapless.log_segment s
  on s.topic_id = d.topic_id and s.partition_id = d.partition_id
  and o between s.base_offset and s.last_offset
"""
KEYS = (
    "insert into gapless.dead_letter_key"
    " select c.group_id, c.topic_id, c.partition_id, k.key::bytea, k.first_offset"
    " from gapless.consumer_offsets c, unnest(%s::text[], %s::bigint[]) k (key, first_offset)"
)
Row = dict[str, Any]
Changes = dict[str, dict[str, tuple[Any, Any]]]


class Letters:
    """Units set aside among twins; partitions are those of billing and orders, by default 1."""

    def __init__(self, twins: Twins) -> None:
        self.twins = twins
        self.conn: Connection[Any] = twins.conn
        self.words = {
            "orders": twins.topic_ids["orders"],
            "other": twins.topic_ids["other"],
            "here": twins.here(),
            "old": OLD,
            "token": f"'{TOKEN}'",
        }

    def plant(self) -> None:
        """Set the same units aside everywhere; every partition has an owner."""
        self.run(OWN)
        lasts, states = zip(*UNITS.values(), strict=True)
        self.conn.execute(PLANT, [list(UNITS), list(lasts), list(states)])
        self.conn.execute(EVENTS)

    def keys(self, held: dict[int, str]) -> None:
        """Let units hold keys of one letter each, the same everywhere."""
        pairs = [(key, offset) for offset, keys in held.items() for key in keys]
        self.conn.execute(KEYS, [[key for key, _ in pairs], [offset for _, offset in pairs]])

    def run(self, statements: str) -> None:
        """Run statements, with {here}, {orders}, {other} and {old} replaced by their values."""
        if statements:
            self.conn.execute(statements.format(**self.words))

    def put(self, state: str, first_offset: int, where: str = "{here}") -> None:
        """Set the state of a unit."""
        self.run(
            f"update gapless.dead_letter set state = '{state}',"
            f" next_attempt_ts = case '{state}' when 'waiting' then {OLD} end,"
            f" discard_reason = case '{state}' when 'discarded' then 'of no use' end"
            f" where {where} and first_offset = {first_offset}"
        )

    def rows(self, query: str, params: Any = None) -> list[Any]:
        return self.conn.execute(query.format(**self.words), params).fetchall()

    def value(self, query: str) -> Any:
        ((value,),) = self.rows(query)
        return value

    def changes(self, query: str, params: Any = None) -> tuple[Any, Changes]:
        """Run a query; return its only value or row, or all rows, and its changes."""
        before, now = self._all(), self.value("select clock_timestamp()")
        answer: Any = self.rows(query, params)
        if len(answer) == 1:
            answer = answer[0][0] if len(answer[0]) == 1 else answer[0]
        answer = None if answer == "" else answer  # of a function that returns nothing
        after = self._all()
        changed: Changes = {}
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                was, is_ = (json.loads(rows.get(name, "{}")) for rows in (before, after))
                changed[name] = {
                    column: (_said(was.get(column), now), _said(is_.get(column), now))
                    for column in sorted(was.keys() | is_.keys())
                    if was.get(column) != is_.get(column)
                }
        return answer, changed

    def locked(self, table: str, names: str) -> list[Any]:
        """Return the rows of a table that this transaction has locked, or changed back."""
        return self.rows(
            f"select {names} from gapless.{table} where xmax::text = pg_current_xact_id()::text order by 1"
        )

    def lasting(self, setting: str, statement: str) -> str:
        """Return the value of a setting after a call; "outer" if the call sets it only locally."""
        self.run(
            f"select set_config('{setting}', 'outer', true);"
            f" create or replace function pg_temp.within() returns void language plpgsql set {setting} = inner_"
            f" as $f$ begin perform {statement}; end $f$; select pg_temp.within()"
        )
        return str(self.value(f"select current_setting('{setting}')"))

    def _all(self) -> dict[str, str]:
        names = {number: name for name, number in self.twins.topic_ids.items()}
        found = {}
        for table, name in TABLES.items():
            query = (
                f"select t.group_id, t.topic_id, t.partition_id, {name}, (to_jsonb(t) - 'audit_id' - 'due_set_ts' - 'error_form')::text"
                f" from gapless.{table} t"
            )
            for group, topic, partition, last, row in self.conn.execute(query):
                found[f"{table} {group} {names[topic]} {partition} {last}".rstrip()] = row
        guards = "select g.group_id, g.topic_id from gapless.guard_keys k join gapless.consumer_group g using (group_no)"
        for group, topic in self.conn.execute(guards):
            found[f"guard_keys {group} {names[topic]}"] = '{"is": "there"}'
        return found


def _said(value: Any, now: datetime) -> Any:
    """Return a value in a form that a test can name."""
    if isinstance(value, dict | list):
        return json.dumps(value)
    if isinstance(value, str) and value[:2] == "20" and value[10:11] == "T":
        seconds = (datetime.fromisoformat(value) - now).total_seconds()
        return f"{10 * round(seconds / 10)} s" if abs(seconds) < 86400 else "old"
    return value


@contextmanager
def planted(dsn: str) -> Iterator[Twins]:
    """Yield twins with the same units set aside everywhere."""
    with connect(dsn, role="test") as conn:
        made = Twins(conn)
        Letters(made).plant()
        yield made


def digest(text: str) -> bytes:
    """Return the digest by which the order of a key is kept."""
    return hashlib.sha256(text.encode()).digest()[:16]


def of(changed: Changes, table: str) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Return the changes of one table alone, by the names of its rows without the table's."""
    return {
        name.removeprefix(f"{table} "): columns
        for name, columns in changed.items()
        if name.startswith(f"{table} ")
    }
