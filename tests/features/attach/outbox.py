"""An outbox as applications have them, attached to a topic, and what the log has of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection

from gapless.features.attach.ops import Attached, AttachRequest, attach_table
from gapless.log.sequence import sequence

MADE = "create table public.box (id bigserial primary key, customer text, body jsonb)"
WISH = AttachRequest(table="public.box", topic="outbox", map={"key": "customer", "payload": "body"})


def fill(conn: Connection[Any], first: int, last: int, *, customers: int = 7) -> None:
    """Insert rows of a statement, their payload is their number."""
    conn.execute(
        "insert into public.box (customer, body) select 'c' || n %% %s, to_jsonb(n)"
        " from generate_series(%s::int, %s::int) n",
        [customers, first, last],
    )


def attach(conn: Connection[Any], wish: AttachRequest = WISH, **options: Any) -> Attached:
    return attach_table(conn, wish, **options)


def log(conn: Connection[Any], partitions: int = 4) -> list[list[int]]:
    """The payloads of each partition, in the order of their offsets."""
    sequence(conn)
    return [
        [
            payload
            for (payload,) in conn.execute(
                "select payload from gapless.read('outbox', %s) order by c_offset", [partition]
            )
        ]
        for partition in range(partitions)
    ]


def everything(conn: Connection[Any], partitions: int = 4) -> list[int]:
    return sorted(each for part in log(conn, partitions) for each in part)


@contextmanager
def writer(dsn: str, number: int) -> Iterator[Connection[Any]]:
    """A transaction that has inserted a row and is still open; it commits at the end."""
    with psycopg.connect(dsn) as conn:
        fill(conn, number, number)
        yield conn
