"""Whole programs killed at the worst moments, JVM and all: every event once at the other end."""

from pathlib import Path

import pytest
from psycopg import Connection

from features.spark.engine.programs import kill_jvm, started, until_it
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import Topic, ensure_topic

EVENTS = 300
PAD = "x" * 4000  # more than a task hands over in its message: it has to stage
PATIENCE_S = 300.0
COPY = Path(__file__).with_name("copy_stream.py")
COPIED = """
select count(*), count(distinct event_type) from gapless.outbox_message_t
join gapless.topic using (topic_id) where name = 'copy'
"""
IN_COMMIT = """
select count(*) from pg_stat_activity
where application_name = 'gapless/spark sink' and state = 'idle in transaction'
  and state_change < clock_timestamp() - interval '1 s' and datname = current_database()
"""

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def test_a_stream_into_a_topic(conn: Connection, dsn: str, topic: Topic, tmp_path: Path) -> None:
    """Killed after its tasks staged, inside the sink's commit, and between that and Spark's own."""
    ensure_topic(conn, "copy", partitions=2)
    for start in range(0, EVENTS, 10):
        units = range(start, start + 10)
        publish(
            conn, "outbox", [NewEvent(payload=PAD, key=str(n), event_type=str(n)) for n in units]
        )
    command = (str(COPY), dsn, str(tmp_path / "checkpoint"))

    with started(*command, GAPLESS_FAILPOINTS="sink.staged=kill") as process:
        assert process.wait(PATIENCE_S) == 1, "every attempt of a task is killed: the query fails"
    assert _copied(conn) == (0, 0)
    assert conn.execute("select count(*) from gapless.stage").fetchone() != (0,)

    with started(*command, GAPLESS_FAILPOINTS="sink.published=stall:600") as process:
        until_it(process, lambda: conn.execute(IN_COMMIT).fetchone() == (1,), PATIENCE_S)
        kill_jvm(process)
    assert _copied(conn) == (0, 0)

    with started(*command, GAPLESS_FAILPOINTS="sink.committed=stall:600") as process:
        until_it(process, lambda: _copied(conn) == (EVENTS, EVENTS), PATIENCE_S)
        kill_jvm(process)
    assert not list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")), "Spark does not know"

    for _ in range(2):
        with started(*command) as process:
            assert process.wait(PATIENCE_S) == 0
        assert _copied(conn) == (EVENTS, EVENTS)
    assert list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))


def _copied(conn: Connection) -> tuple[int, ...]:
    return conn.execute(COPIED).fetchone() or ()
