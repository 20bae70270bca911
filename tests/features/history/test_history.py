"""The past of groups and topics: recorded minutes, gaps, clocks that are set, and what is packed."""
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg import Connection

from gapless.log.publish import publish
from gapless.log.sequence import sequence
from support.records import value

HOUR = datetime(2030, 1, 1, 12, tzinfo=UTC)

def record(conn: Connection[Any], minute: int, keep_hours: int = 72) -> int:
    at = HOUR + timedelta(minutes=minute)
    return int(value(conn, "select gapless.record_history_at(%s, %s)", at, keep_hours))

def test_x(conn: Connection[Any], orders: None) -> None:
    print(record(conn, 0), record(conn, 1), record(conn, 2), record(conn,2))
    print(conn.execute("select * from gapless.history(null,null,%s,%s)", [HOUR, HOUR+timedelta(hours=2)]).fetchall())
    publish(conn, "orders", 1); sequence(conn)
    conn.execute("update gapless.consumer_offsets set next_offset=5")
    print(record(conn, 3), record(conn, 60))
    for r in conn.execute("select * from gapless.history(null,null,%s,%s)", [HOUR, HOUR+timedelta(hours=2)]).fetchall(): print(r)
    assert 0
