from __future__ import annotations
from typing import Any
from psycopg import Connection
from gapless.log.topics import Topic
from gapless.log.publish import publish


def test_it(conn: Connection[Any], topic: Topic) -> None:
    a = publish(conn, "outbox", 1, dedupe_key="k")
    b = publish(conn, "outbox", 2, dedupe_key="k")
    print(repr(a), repr(b), a.duplicate, b.duplicate)
    print(conn.execute("select * from gapless.dedupe").fetchall())
    print(
        conn.execute(
            "select * from gapless.publish_each('outbox', array['1','2','3'], dedupe_keys=>array['k','z',null])"
        ).fetchall()
    )
    print(conn.execute("select gapless.publish('outbox', '1', dedupe_key=>'z')").fetchall())
    assert a == b
    assert 0
