"""Row security that somebody switched on: hidden rows are never taken for none, and off again all is handled (I1)."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

import gapless
from gapless.db.migrate import migrate
from gapless.errors import GaplessError
from gapless.log.sequence import create_chunks
from gapless.log.topics import ensure_topic
from gapless.testing import drain
from support.long import long_but

# Of these, hidden rows were taken for none once.
GRAVE = "dead_letter_event", "group_filter", "log_segment", "subscription", "subscription_form"
TABLES = (
    "select c.relname::text from pg_class c where c.relnamespace = 'gapless'::regnamespace"
    " and c.relkind in ('r', 'p') and not c.relispartition order by 1"
)
RETRY: dict[str, Any] = {"topic": "t", "on_failure": "retry", "retry_delays_s": [0.0] * 4}
Seen = Counter[tuple[str, int, str]]


def note(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Write down what it is told; an event of two fails at first."""
    for event in unit:
        names = ",".join(each.name for each in event.subscriptions)
        values = [unit.group, event.payload["n"], names]
        conn.execute("insert into seen values (%s, %s, %s)", values)
        if event.payload["n"] % 2 and unit.attempt == 1:
            raise ValueError("not yet")


APP = [
    gapless.handler(group="told", **RETRY)(note),
    gapless.handler(group="some", event_types=["a"], **RETRY)(note),
    gapless.handler(group="queue", mode="queue", **RETRY)(note),
]


@pytest.fixture
def consumer(dsn: str, conn: Connection[Any]) -> Iterator[str]:
    """The DSN of one who may consume; the schema belongs to a role that is no superuser."""
    owner, role = (f"{conn.info.dbname}_{end}" for end in ("owner", "consumer"))
    conn.execute(
        f"drop schema gapless cascade; create role {owner} login; create role {role} login;"
        f"alter database {conn.info.dbname} owner to {owner};"
        f"create table seen (group_id text, n int, names text); grant all on seen to {role}"
    )
    try:
        with psycopg.connect(make_conninfo(dsn, user=owner), autocommit=True) as own:
            migrate(own)
            create_chunks(own)
        conn.execute(f"grant gapless_consumer to {role}")
        yield make_conninfo(dsn, user=role)
    finally:
        conn.execute(f"alter database {conn.info.dbname} owner to current_user")
        conn.execute(f"drop owned by {owner}, {role} cascade; drop role {owner}, {role}")


def wanted(numbers: range) -> Seen:
    found = [("queue", n, "") for n in numbers] + [("told", n, f"of {n % 3}") for n in numbers]
    return Counter([*found, *(("some", n, "") for n in numbers if n % 4 < 2)])


@pytest.mark.parametrize("forced", [False, True], ids=["enabled", "forced"])
@pytest.mark.parametrize("every", long_but([False, True], False), ids=["grave", "all"])
def test_what_is_hidden_is_not_gone(
    conn: Connection[Any], consumer: str, *, every: bool, forced: bool
) -> None:
    ensure_topic(conn, "t", partitions=1)
    for handler in APP:
        drain(consumer, handler)
    for n in range(3):
        conn.execute(
            "select gapless.subscribe('told', 't', %s, '{\"m\": \"$.m\"}', %s::jsonb)",
            [f"of {n}", f'{{"m": {n}}}'],
        )
    tables = [t for (t,) in conn.execute(TABLES).fetchall() if every or t in GRAVE]
    events = range(4 * len(tables))
    for table, first in zip(tables, events[::4], strict=True):
        for n in events[first : first + 4]:
            values = [f'{{"n": {n}, "m": {n % 3}}}', "ab"[n % 4 // 2]]
            conn.execute("select gapless.publish('t', %s::json, 'k', %s)", values)
        conn.execute(f"alter table gapless.{table} enable row level security")
        if forced:
            conn.execute(f"alter table gapless.{table} force row level security")
        for handler in APP:
            with suppress(psycopg.Error, GaplessError):
                drain(consumer, handler)
        seen: Seen = Counter(conn.execute("select * from seen").fetchall())
        assert not seen - wanted(events), table
        conn.execute(f"alter table gapless.{table} disable row level security")
        conn.execute(f"alter table gapless.{table} no force row level security")
    for handler in APP:
        drain(consumer, handler)
    assert Counter(conn.execute("select * from seen").fetchall()) == wanted(events)
    assert not conn.execute("select from gapless.dead_letter where state = 'dead'").fetchall()
