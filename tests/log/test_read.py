"""Reading: gapless.read() for people, fetch() for workers. In offset order, and never with a hole."""

import json

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.log.event import Event, NewEvent
from gapless.log.publish import publish
from gapless.log.read import fetch
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic

EVENTS = 450  # three segments


@pytest.fixture
def log(conn: Connection) -> Connection:
    """Topic `one` with one partition, and EVENTS events numbered from 1 in their payload."""
    ensure_topic(conn, "one", partitions=1)
    publish(conn, "one", (NewEvent(payload=n + 1, key="k") for n in range(EVENTS)))
    assert sequence(conn) == EVENTS
    return conn


def test_read_of_what_is_not_there(log: Connection) -> None:
    assert log.execute("select * from gapless.read('one', 7)").fetchall() == []
    with pytest.raises(psycopg.Error, match='topic "nothing" does not exist'):
        log.execute("select * from gapless.read('nothing', 0)")


def test_an_event_decodes_what_was_published(conn: Connection) -> None:
    ensure_topic(conn, "one", partitions=1)
    text = b'{ "b":1,"a" : [1.10, "\\u0000\xc3\xbc"],  "b": 2 }'
    returned = publish(conn, "one", text, headers={"h": [1]}, key="k")
    publish(conn, "one", None, key="k")
    with conn.cursor() as cursor:
        cursor.execute(
            "insert into gapless.outbox_message_t (topic_id, key)"
            " values (gapless.topic_id('one'), 'k')"
        )
    sequence(conn)
    ids = [row[0] for row in conn.execute("select id from gapless.outbox_message_t order by 1")]
    first, null, nothing = (Event("one", 0, n + 1, row) for n, row in enumerate(fetch(conn, ids)))
    assert first.payload_json == text, "byte for byte"
    assert first.payload == json.loads(text) == {"b": 2, "a": [1.1, "\0ü"]}
    assert first.headers == {"h": [1]}
    assert first.transaction_id == returned
    assert first.created_ts.tzinfo is not None
    assert repr(first) == "Event(one/0@1 key='k' event_type=None)"
    assert (null.payload, null.payload_json) == (None, b"null")
    assert (nothing.payload, nothing.payload_json, nothing.headers) == (None, None, {})


def test_reading_does_not_depend_on_the_sessions_settings(log: Connection, dsn: str) -> None:
    with connect(dsn, role="test") as odd:
        for setting in [
            "timezone = 'Pacific/Kiritimati'",
            "datestyle = 'German, DMY'",
            "search_path = ''",
            "intervalstyle = 'sql_standard'",
            "bytea_output = 'escape'",
        ]:
            odd.execute(f"set {setting}")
        publish(odd, "one", [NewEvent(payload=n) for n in range(200)])
        assert sequence(odd) == 200
        ids = [row[0] for row in odd.execute("select id from gapless.outbox_message_t order by 1")]
        rows = fetch(odd, ids)
        assert rows == fetch(log, ids)
        clock = log.execute(
            "select created_ts, xid from gapless.outbox_message_t where id = %s", ids[-1:]
        )
        assert clock.fetchone() == (Event("one", 0, 1, rows[-1]).created_ts, str(rows[-1][8]))
