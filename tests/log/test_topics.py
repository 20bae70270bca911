"""Topics: made, found, refused."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.errors import UsageError
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic

INSERT = "insert into gapless.outbox_message_t (topic_id, key, event_type) values (%s, %s, %s)"


def test_id_1_is_kept_for_the_outbox(conn: Connection) -> None:
    """It is what an INSERT means that names no topic."""
    assert ensure_topic(conn, "orders", partitions=1).topic_id == 2
    assert ensure_topic(conn, "bills", partitions=1).topic_id == 3
    assert ensure_topic(conn, "outbox", partitions=2).topic_id == 1
    assert ensure_topic(conn, "topic-1", partitions=2).topic_id == 4
    conn.execute("insert into gapless.outbox_message_t (key) values ('k')")
    assert sequence(conn) == 1
    row = conn.execute("select count(*) from gapless.read('outbox', 0)").fetchone()
    other = conn.execute("select count(*) from gapless.read('outbox', 1)").fetchone()
    assert row is not None
    assert other is not None
    assert row[0] + other[0] == 1


@pytest.mark.parametrize("topic_id", [0, -1])
def test_an_id_that_can_be_no_topic_is_refused_at_once(conn: Connection, topic_id: int) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        conn.execute(INSERT, [topic_id, "k", "e"])


@pytest.mark.writes_nothing
@pytest.mark.parametrize(
    ("name", "partitions", "message"),
    [
        ("two words", 1, '"two words" is not a topic name'),
        ("", 1, "is not a topic name"),
        ("x" * 250, 1, "is not a topic name"),
        ("x'; drop schema gapless", 1, "is not a topic name"),
        ("a\nb", 1, "is not a topic name"),
        ("orders\n", 1, "is not a topic name"),
        ("orders", 0, "partitions must be from 1 to 4096, not 0"),
        ("orders", 4097, "partitions must be from 1 to 4096, not 4097"),
    ],
)
def test_what_cannot_be_a_topic(conn: Connection, name: str, partitions: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ensure_topic(conn, name, partitions=partitions)


def test_many_make_the_same_topics_at_once(dsn: str) -> None:
    def make(number: int) -> list[int]:
        with connect(dsn, role="test") as conn:
            names = [f"topic{(number + n) % 8}" for n in range(8)]
            return sorted(ensure_topic(conn, name, partitions=2).topic_id for name in names)

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(make, range(6)))
    assert results == [results[0]] * 6
    assert len(set(results[0])) == 8
