"""Tables to capture, in one session, and every row and trigger that a call changes."""

import json
from typing import Any

from psycopg import Connection

from support.diffs import Diffs

MADE = """
select gapless.create_topic('outbox', 2), gapless.create_topic('other', 3), gapless.create_topic('single', 1);
create table public.box (id int primary key, a text, b int, c text);
create table public.twin (id int primary key, a text, b int, c text);
"""
STATE = """
select concat_ws(' ', 'captured', c.table_name, t.name, 'by', coalesce(c.key, '-'), c.key_parts, nullif(c.key_numbers, '{}'),
  'of', coalesce(c.columns::text, '-'), c.column_numbers, c.old,
  case when c.table_id is distinct from to_regclass(c.table_name)::oid then 'elsewhere' end)
from gapless.captured c left join gapless.topic t using (topic_id)
union all
select concat_ws(' ', 'event', t.name, quote_nullable(o.key), o.event_type, o.payload::text)
from gapless.outbox_message_t o left join gapless.topic t using (topic_id)
union all
select concat_ws(' ', 'audit', u.action, nullif(u.group_id, ''), t.name, u.detail)
from gapless.audit u left join gapless.topic t using (topic_id)
union all
select concat_ws(' ', 'trigger', g.tgrelid::regclass, substr(g.tgname, 17), g.tgenabled,
  coalesce((select c.table_name from gapless.captured c where c.capture_id::text = w.words[1]), w.words[1]), w.words[2])
from pg_trigger g
cross join lateral (select string_to_array(encode(g.tgargs, 'escape'), E'\\\\000') as words) w
where g.tgname like 'gapless_capture_%'
"""
PARTED = """
create table public.p (id int primary key, n int) partition by range (id);
create table public.p1 partition of public.p for values from (0) to (9);
create table public."P 2" partition of public.p for values from (10) to (19) partition by range (id);
create table public.p21 partition of public."P 2" for values from (10) to (15);
"""
# The trigger for deletes of box with other words.
ANOTHER = (
    "drop trigger gapless_capture_delete on public.box; create trigger gapless_capture_delete after delete on public.box"
    " referencing old table as old_rows for each statement execute function gapless.capture_rows('{}', '{}')"
)
RECORD = "jsonb_populate_record(null::gapless.captured, %s::jsonb)"
OPERATIONS = ("delete", "insert", "truncate", "update")


class CaptureBook(Diffs):
    """Tables that are captured."""

    state = STATE

    def __init__(self, conn: Connection[Any], more: str = "") -> None:
        super().__init__(conn, MADE, *[more] * bool(more))

    def capture(self, table: str = "public.box", topic: str = "outbox", **words: Any) -> int:
        words = {"key": None, "columns": None, "old": "changed", **words}
        statement = "select gapless.capture(%s, %s, %s, %s::text[], %s)"
        return int(
            self.value(statement, table, topic, words["key"], words["columns"], words["old"])
        )

    def record(self, table: str, **words: Any) -> str:
        """Return a capture as JSON; elsewhere: it was made of a table of another number."""
        elsewhere = words.pop("elsewhere", False)
        number = 0 if elsewhere else self.value("select %s::regclass::oid", table)
        made = {
            "capture_id": 77,
            "table_name": f"public.{table}",
            "table_id": number,
            "topic_id": 1,
        }
        return json.dumps({**made, "old": "changed", **words})


def triggers(table: str, of: str, *, place: str = "table", enabled: str = "O") -> list[str]:
    """The four triggers of a table."""
    return [f"trigger {table} {each} {enabled} {of} {place}" for each in OPERATIONS]
