"""Tables to attach that are nearly the same, in one session, and every row that a call changes."""

import json
from hashlib import md5
from time import monotonic, sleep
from typing import Any
from uuid import UUID

from psycopg import Connection

from support.diffs import Diffs
from support.patience import patience

MADE = """
select gapless.create_topic('outbox', 2), gapless.create_topic('other', 2), gapless.create_topic('single', 1);
create table public.box (id bigint primary key, customer text, body jsonb);
create table public.twin (id bigint primary key, customer text, body jsonb);
"""
KINDS = """
create schema "My shop";
create table "My shop"."Box" ("The id" int primary key, customer text, payload jsonb);
create table public.small (x text, n smallint unique, id int, primary key (id) include (x));
create table public.pair (a int, b int, c int, d int, e int, primary key (a, b));
create unique index on public.pair (c) include (a);
create unique index on public.pair (d) where e > 0;
create unique index on public.pair (e, a);
create index on public.pair (b);
create unique index on public.box (customer);
create table public.odd (id numeric primary key, a int unique, b int unique);
insert into public.odd values (1, 1, null), (2, 2, 2);
create table public.keyless (id int);
create table public.whole (
  id int primary key, key int, host_id uuid, user_id text, transaction_id uuid, event_type text,
  payload json, headers jsonb, t text, v varchar(9), n int
);
create table public.wrong (id int primary key, payload int);
"""
NO_UNIQUE = 'column "{}" of {} is not unique by itself: name one that is (--id), or make a unique index of it'
NO_ID = "{} has no ordered id: its primary key is no single column; name a unique column of whole numbers (--id)"
LIVE = "select gapless.go_live(%s, %s)"
WISH: dict[str, str | None] = {"key": "customer", "payload": "body"}
FILL = (
    "insert into public.{} select n, 'c' || n, to_jsonb(n) from unnest(%s::bigint[]) n order by n"
)
# All that attach works with, a line for each row; without numbers that only count, and times.
STATE = """
select concat_ws(' ', 'attached', a.table_name, t.name, a.id_column, jsonb_strip_nulls(a.map), a.places,
  coalesce(nullif(a.copied_to, -9223372036854775808)::text, 'begin'),
  case when a.live_ts is null then 'copied' else 'live' end, a.column_numbers, 'before', a.changes_before,
  case when a.table_id is distinct from to_regclass(a.table_name)::oid then 'elsewhere' end)
from gapless.attached a left join gapless.topic t using (topic_id)
union all
select concat_ws(' ', 'row', a.table_name, r.source_id, 'is', o.payload::jsonb)
from gapless.attached_row r left join gapless.attached a using (attachment_id)
left join gapless.outbox_message_t o on o.id = r.message_id
union all
select concat_ws(' ', 'miss', a.table_name, m.rows, m.error)
from gapless.attached_miss m left join gapless.attached a using (attachment_id)
union all
select concat_ws(' ', 'group', a.table_name, g.group_id, g.state)
from gapless.attached_group g left join gapless.attached a using (attachment_id)
union all
select concat_ws(' ', 'event', t.name, coalesce(o.key, '-'), coalesce(o.host_id::text, '-'), coalesce(o.user_id, '-'),
  coalesce(o.transaction_id::text, '-'), coalesce(o.event_type, '-'), o.payload::jsonb, o.headers)
from gapless.outbox_message_t o left join gapless.topic t using (topic_id)
union all
select concat_ws(' ', 'audit', u.action, nullif(u.group_id, ''), t.name, u.partition_id, u.detail - '{paused_ts,holder,reason,letters}'::text[])
from gapless.audit u left join gapless.topic t using (topic_id)
union all
select concat_ws(' ', 'pause', p.group_id, t.name, p.partition_id,
  case p.holder when gapless.attach_holder() then 'of attach' else 'of somebody' end, p.reason)
from gapless.group_pause p join gapless.topic t using (topic_id)
union all
select concat_ws(' ', 'offset', c.group_id, t.name, c.partition_id, c.next_offset)
from gapless.consumer_offsets c join gapless.topic t using (topic_id)
union all
select concat_ws(' ', 'trigger', g.tgrelid::regclass, g.tgname, g.tgenabled,
  (select a.table_name from gapless.attached a
    where a.attachment_id::text = split_part(encode(g.tgargs, 'escape'), E'\\\\000', 1)))
from pg_trigger g where g.tgname like 'gapless_attach%'
"""


class Boxes(Diffs):
    """Tables that are attached."""

    state = STATE

    def __init__(self, conn: Connection[Any], more: str = "") -> None:
        super().__init__(conn, MADE, *[more] * bool(more))

    def counted(self, table: str, updated: int, deleted: int) -> None:
        """Wait until the server's statistics have these changes: they come a moment later."""
        query = "select pg_stat_get_tuples_updated(%s::regclass), pg_stat_get_tuples_deleted(%s::regclass)"
        give_up_s = monotonic() + patience(30)
        while self.row(query, table, table) != (updated, deleted):
            assert monotonic() < give_up_s
            if self.conn.info.server_version >= 150000:
                self.run("select pg_stat_force_next_flush()")
            else:
                sleep(0.05)

    def fill(self, *ids: int, table: str = "box") -> None:
        """Insert rows of these ids, which are their payload, too."""
        self.run(FILL.format(table), list(ids))

    def attach(self, table: str = "public.box", topic: str = "outbox", **words: Any) -> int:
        """Return the number of the attachment; nothing is copied yet."""
        words = {"id": None, "map": WISH, "places": None, "despite": False, **words}
        asked = [
            None if words[each] is None else json.dumps(words[each]) for each in ("map", "places")
        ]
        statement = "select gapless.attach(%s, %s, %s, %s::jsonb, %s::jsonb, %s)"
        return int(self.value(statement, table, topic, words["id"], *asked, words["despite"]))

    def live(self, table: str = "public.box", topic: str = "outbox", **words: Any) -> int:
        """Attach a table, and copy what it has."""
        number = self.attach(table, topic, **words)
        assert self.value("select gapless.go_live(%s, 1000)", number)
        return number


MAP = '{"key": "customer", "payload": "body"}'
NUMBERS = '{"id": 1, "key": 2, "payload": 3}'

MARK = '{{"attached": {{"id": {}, "table": "public.{}", "backfill": {}}}}}'


def noted(copied_to: str, how: str) -> str:
    return f"attached public.box outbox id {MAP} {copied_to} {how} {NUMBERS} before 0"


def unit(number: int, table: str = "box") -> str:
    return str(UUID(md5(f"gapless attach public.{table} {number}".encode()).hexdigest()))


def copied(*ids: int) -> list[str]:
    """What comes of rows of box that were there."""
    events = [
        f"+ event outbox c{n} - - {unit(n)} - {n} {MARK.format(n, 'box', 'true')}" for n in ids
    ]
    return sorted([*events, *(f"+ row public.box {n} is {n}" for n in ids)])


def came(*ids: int) -> list[str]:
    """What comes of rows of box that are inserted."""
    events = [f"+ event outbox c{n} - - - - {n} {MARK.format(n, 'box', 'false')}" for n in ids]
    return sorted([*events, *(f"+ row public.box {n} is {n}" for n in ids)])


def moved(before: str, after: str, *, live: tuple[str, str] = ("copied", "copied")) -> list[str]:
    return [f"+ {noted(after, live[1])}", f"- {noted(before, live[0])}"]
