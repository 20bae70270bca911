"""One host is one key, however its UUID is spelled; a key is what it says."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection

from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.group import owner

HOST = "01964b05-552a-7c4b-9184-6857e7f3dc5f"
SPELLINGS = (HOST, HOST.upper(), f"{{{HOST}}}", f"{{{HOST.upper()}}}")
PARTITIONS = "select array_agg(distinct partition_id) from gapless.log_segment"


def one(conn: Connection[Any], host: str) -> None:
    publish(conn, "outbox", NewEvent(payload=1, host_id=host))


def some(conn: Connection[Any], host: str) -> None:
    publish(conn, "outbox", [NewEvent(payload=n, host_id=host) for n in range(2)])


def many(conn: Connection[Any], host: str) -> None:
    publish(conn, "outbox", [NewEvent(payload=n, host_id=host) for n in range(300)])


def keyed(conn: Connection[Any], host: str) -> None:
    publish(conn, "outbox", NewEvent(payload=1, host_id=host, dedupe_key=host))


def by_sql(conn: Connection[Any], host: str) -> None:
    conn.execute("select gapless.publish('outbox', '1', host_id => %s)", [host])


@pytest.mark.parametrize("way", [one, some, many, keyed, by_sql])
def test_one_host_is_in_one_partition(
    conn: Connection[Any], topic: Topic, way: Callable[[Connection[Any], str], None]
) -> None:
    for host in SPELLINGS:
        with conn.transaction():
            way(conn, host)
    sequence(conn)
    stored = conn.execute("select distinct host_id from gapless.outbox_message_t").fetchall()
    assert stored == [(HOST,)]
    routed = conn.execute("select gapless.partition_of(%s, 4)", [HOST]).fetchone()
    assert routed is not None
    assert conn.execute(PARTITIONS).fetchone() == ([routed[0]],), "as it always was"


def test_one_host_is_in_one_partition_also_by_insert(
    conn: Connection[Any], dsn: str, topic: Topic
) -> None:
    """It stores what it is given; who asks where a transaction is, finds it there."""
    transactions = []
    for host in SPELLINGS:
        with conn.transaction():
            insert = "insert into gapless.outbox_message_t (payload, host_id) values ('1', %s)"
            conn.execute(insert, [host])
            row = conn.execute("select gapless.own_transaction_id()").fetchone()
            assert row is not None
            transactions.append(row[0])
    sequence(conn)
    one(conn, HOST)
    sequence(conn)
    ((partitions,),) = conn.execute(PARTITIONS).fetchall()
    assert len(partitions) == 1
    for offset, transaction in enumerate(transactions, 1):
        found = conn.execute(
            "select first_offset from gapless.locate(%s)", [transaction]
        ).fetchall()
        assert found == [(offset,)]
    with owner(dsn, "g", topic) as group:
        digests = group.conn.execute(
            "select distinct gapless.key_digest(o) from gapless.outbox_message_t o"
        ).fetchall()
    assert len(digests) == 1
