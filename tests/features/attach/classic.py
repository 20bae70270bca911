"""The classic design beside gapless: its tables, a producer, consumers, each in its own process.

As light-portal's page on its PostgreSQL pub/sub says: offsets reserved from one counter, places claimed
by UPDATE … RETURNING, a consumer for each partition, that is hash of host_id modulo their number.
"""

import random
import time
from contextlib import suppress
from multiprocessing.synchronize import Event
from typing import Any
from uuid import UUID, uuid5

import psycopg
from psycopg import Connection

from gapless.consume.unit import Unit
from gapless.consume.user.handler import handler
from gapless.errors import GaplessError
from gapless.testing import drain

PARTITIONS = 4
TABLES = """
create table public.log_counter (id int primary key, next_offset bigint not null default 1);
insert into public.log_counter values (1, 1);
create table public.consumer_offsets (
  group_id varchar(255), topic_id int, partition_id int, next_offset bigint not null default 1,
  primary key (group_id, topic_id, partition_id)
);
create table public.outbox_message_t (
  id uuid primary key default gen_random_uuid(), host_id uuid not null, user_id uuid not null,
  c_offset bigint unique, transaction_id uuid, event_type varchar(126), payload jsonb
);
create table public.handled (n bigserial, host_id text, c_offset bigint, who text);
insert into public.consumer_offsets select 'user-query-group', 1, p from generate_series(0, 3) p;
"""
HOSTS = [uuid5(UUID(int=0), str(n)) for n in range(12)]
RESERVE = (
    "update public.log_counter set next_offset = next_offset + %(rows)s where id = 1"
    " returning next_offset - %(rows)s"
)
INSERT = (
    "insert into public.outbox_message_t (host_id, user_id, c_offset, transaction_id, payload)"
    " values (%s, %s, %s, %s, to_jsonb(%s::bigint))"
)
CLAIM = (
    "with counter_tip as (select next_offset - 1 as tip from public.log_counter where id = 1),"
    " to_claim as (select group_id, partition_id, next_offset,"
    " least(20, greatest(0, (select tip from counter_tip) - next_offset + 1)) as delta"
    " from public.consumer_offsets where group_id = 'user-query-group' and topic_id = 1"
    " and partition_id = %s for update),"
    " upd as (update public.consumer_offsets c set next_offset = c.next_offset + t.delta"
    " from to_claim t where c.group_id = t.group_id and c.topic_id = 1"
    " and c.partition_id = t.partition_id"
    " returning t.next_offset as start_offset, c.next_offset - 1 as end_offset)"
    " select start_offset, end_offset from upd"
)
HANDLE = (
    "insert into public.handled (host_id, c_offset, who)"
    " select host_id, c_offset, 'old' from public.outbox_message_t"
    " where c_offset between %s and %s and abs(hashtext(host_id::text)) %% 4 = %s order by c_offset"
)


def produce(dsn: str, stop: Event, rows_max: int = 4) -> None:
    """Publish as the classic producer does, transactions of some rows, one of ten rolled back."""
    chance = random.Random(1)
    with psycopg.connect(dsn) as conn:
        while not stop.is_set():
            publish_once(conn, chance, rows_max)
            if chance.random() < 0.1:
                conn.rollback()
            else:
                conn.commit()
            time.sleep(0.005)


def publish_once(conn: Connection[Any], chance: random.Random, rows_max: int) -> None:
    rows = chance.randint(1, rows_max)
    found = conn.execute(RESERVE, {"rows": rows}).fetchone()
    assert found is not None
    transaction = UUID(int=chance.getrandbits(128))
    for offset in range(found[0], found[0] + rows):
        host = chance.choice(HOSTS)
        conn.execute(INSERT, [host, host, offset, transaction, offset])


def consume_classic(dsn: str, partition: int, stop: Event) -> None:
    """Claim and handle in one transaction, as the classic consumer of this partition does."""
    with psycopg.connect(dsn) as conn:
        while not stop.is_set():
            found = conn.execute(CLAIM, [partition]).fetchone()
            assert found is not None
            conn.execute(HANDLE, [*found, partition])
            conn.commit()
            time.sleep(0.005)


def consume_group(dsn: str, stop: Event) -> None:
    """Handle what the group has, whenever it may."""

    @handler(topic="outbox", group="user-query-group")
    def write(unit: Unit, conn: Connection[Any]) -> None:
        for event in unit:
            conn.execute(
                "insert into public.handled (host_id, c_offset, who) values (%s, %s, 'group')",
                [event.host_id, event.payload],
            )

    with psycopg.connect(dsn, autocommit=True) as conn:
        # Started before, it would make a group of its own, which handles all there is.
        while conn.execute("select from gapless.attached_group").fetchone() is None:
            if stop.wait(0.05):
                return
    while not stop.is_set():
        with suppress(GaplessError):  # it is paused
            drain(dsn, write)
        time.sleep(0.02)
