"""Executors that are processes of their own, as in a cluster: Spark's local-cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from psycopg import Connection

from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import Topic, ensure_topic

EVENTS = 5000
DOCUMENT = """
pipelines:
  again:
    from: outbox
    batchEvents: 3000
    columns: [key, value]
    to: {topic: again}
"""


@pytest.mark.soak
def test_a_pipeline_on_separate_executors(
    conn: Connection, dsn: str, topic: Topic, tmp_path: Path
) -> None:
    ensure_topic(conn, "again", partitions=2)
    for start in range(0, EVENTS, 100):
        events = [NewEvent(payload={"n": n}, key=str(n)) for n in range(start, start + 100)]
        publish(conn, "outbox", events)
    file = tmp_path / "pipelines.yml"
    file.write_text(DOCUMENT)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "gapless", "pipeline", "run", "again", "--once"),
            *("--file", str(file), "--master", "local-cluster[2,1,1024]", "--dsn", dsn),
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    row = conn.execute(
        "select count(*), count(distinct key) from gapless.outbox_message_t"
        " join gapless.topic using (topic_id) where name = 'again'"
    ).fetchone()
    assert row == (EVENTS, EVENTS)
