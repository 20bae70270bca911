"""Whole programs killed at the worst moments, JVM and all: every event once at the other end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from psycopg import Connection

from chaos.process import children_of, title
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

    with _started(command, "sink.staged=kill") as process:
        assert process.wait(PATIENCE_S) == 1, "every attempt of a task is killed: the query fails"
    assert _copied(conn) == (0, 0)
    assert conn.execute("select count(*) from gapless.stage").fetchone() != (0,)

    with _started(command, "sink.published=stall:600") as process:
        _until(process, lambda: conn.execute(IN_COMMIT).fetchone() == (1,))
        _kill_jvm(process)
    assert _copied(conn) == (0, 0)

    with _started(command, "sink.committed=stall:600") as process:
        _until(process, lambda: _copied(conn) == (EVENTS, EVENTS))
        _kill_jvm(process)
    assert not list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")), "Spark does not know"

    for _ in range(2):
        with _started(command) as process:
            assert process.wait(PATIENCE_S) == 0
        assert _copied(conn) == (EVENTS, EVENTS)
    assert list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))


@contextmanager
def _started(command: tuple[str, ...], failpoints: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a session of its own; nothing of it is left afterwards."""
    process = subprocess.Popen(
        [sys.executable, *command],
        env={
            **os.environ,
            "GAPLESS_FAILPOINTS": failpoints,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _kill_jvm(process: subprocess.Popen[bytes]) -> None:
    """Kill the JVM and the program at once."""
    for pid in children_of(process.pid):
        if "SparkSubmit" in title(pid):
            os.kill(pid, signal.SIGKILL)
    process.kill()


def _copied(conn: Connection) -> tuple[int, ...]:
    return conn.execute(COPIED).fetchone() or ()


def _until(process: subprocess.Popen[bytes], look: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while not look():
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < give_up_s
        time.sleep(0.1)
