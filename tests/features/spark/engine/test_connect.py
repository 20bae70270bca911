"""Spark Connect: a server in a JVM of its own, and programs that SPARK_REMOTE leads to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic
from support.ports import free_port

pytest.importorskip("pyspark")
pytest.importorskip("grpc", reason="grpcio cannot be had here")

HERE = Path(__file__).parent
EVENTS = 200
PIPELINES = """
pipelines:
  sums:
    from: outbox
    sql: >-
      select key, sum(cast(get_json_object(value, '$.n') as bigint)) as total
      from events group by key
    to: {table: sums, key: [key], add: [total]}
  back: {from: outbox, columns: [key, value], to: {topic: again}}
  files: {from: outbox, to: {parquet: FOLDER}}
"""
SPEC = """
name: shop
storage: STORAGE
libraries:
  - glob: {include: transformations/**}
"""
DECLARED = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

DSN = {dsn!r}
LOG = {{"url": DSN, "subscribe": "outbox", "startingOffsets": "earliest"}}


@dp.table
def orders():
    return SparkSession.active().readStream.format("gapless").options(**LOG).load()


dp.create_sink("back", "gapless", {{"url": DSN, "topic": "again"}})


@dp.append_flow(target="back")
def again():
    return SparkSession.active().readStream.table("orders").select("key", "value")
"""


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server, for all tests of this file."""
    folder, port = tmp_path_factory.mktemp("connect"), free_port()
    server = subprocess.Popen(
        [sys.executable, str(HERE / "connect_server.py"), str(port), str(folder / "warehouse")],
        env=_environment(),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == "ready\n"
        yield f"sc://127.0.0.1:{port}"
        server.stdin.close()
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.stdout.close()
        server.wait()


@pytest.fixture
def log(conn: Connection, topic: Topic) -> Connection:
    """The topic `outbox` with EVENTS events of ten keys, and an empty one, `again`."""
    ensure_topic(conn, "again", partitions=2)
    publish(conn, "outbox", [NewEvent(payload={"n": n}, key=str(n % 10)) for n in range(EVENTS)])
    sequence(conn)
    return conn


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}


def _run(remote: str, cwd: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env=_environment(SPARK_REMOTE=remote),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )


def _do(remote: str, dsn: str, folder: Path, deed: str) -> Any:
    program = str(HERE / "connect_client.py")
    done = _run(remote, folder, sys.executable, program, deed, dsn, str(folder / "checkpoint"))
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def _cli(remote: str, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return _run(remote, cwd, sys.executable, "-m", "gapless", *words)


def _count(conn: Connection, topic: str) -> int:
    row = conn.execute(
        "select count(*) from gapless.outbox_message_t join gapless.topic using (topic_id)"
        " where name = %s",
        [topic],
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.long
def test_a_read(remote: str, log: Connection, dsn: str, tmp_path: Path) -> None:
    found = _do(remote, dsn, tmp_path, "read")
    assert len(found["places"]) == len({tuple(place) for place in found["places"]}) == EVENTS
    assert found["wrong"].startswith('topic "none" does not exist')


@pytest.mark.long
def test_a_write(remote: str, log: Connection, dsn: str, tmp_path: Path) -> None:
    _do(remote, dsn, tmp_path, "write")
    assert _count(log, "outbox") == EVENTS + 500, "once, though it ran twice under its writeId"


@pytest.mark.long
def test_a_stream(remote: str, log: Connection, dsn: str, tmp_path: Path) -> None:
    _do(remote, dsn, tmp_path, "stream")
    assert _count(log, "again") == EVENTS
    publish(log, "outbox", {}, key="more")
    _do(remote, dsn, tmp_path, "stream")
    assert _count(log, "again") == EVENTS + 1


@pytest.mark.long
def test_the_session_that_runs(remote: str, topic: Topic, dsn: str, tmp_path: Path) -> None:
    found = _do(remote, dsn, tmp_path, "settings")
    assert found["partitions"] == "3"
    assert "spark.executor.memory: the Spark session that runs cannot take it" in found["wrong"]


@pytest.mark.long
def test_pipelines(remote: str, log: Connection, dsn: str, tmp_path: Path) -> None:
    log.execute("create table sums (key text primary key, total bigint)")
    (tmp_path / "pipelines.yml").write_text(PIPELINES.replace("FOLDER", str(tmp_path / "files")))
    for name in ("sums", "back"):
        done = _cli(remote, tmp_path, "pipeline", "run", name, "--once", "--dsn", dsn)
        assert done.returncode == 0, done.stderr
    total = EVENTS * (EVENTS - 1) // 2
    assert log.execute("select count(*), sum(total) from sums").fetchone() == (10, total)
    assert _count(log, "again") == EVENTS
    done = _cli(remote, tmp_path, "pipeline", "run", "files", "--once", "--dsn", dsn)
    assert (done.returncode, "a target of files needs Hadoop's file" in done.stderr) == (2, True)


@pytest.mark.long
def test_a_declarative_pipeline(remote: str, log: Connection, dsn: str, tmp_path: Path) -> None:
    """Spark's own: a streaming table of the log, and a flow from it back into the log."""
    command = Path(sys.executable).with_name("spark-pipelines")
    if not command.exists():
        pytest.skip("spark-pipelines needs PySpark 4.1")
    (tmp_path / "spark-pipeline.yml").write_text(
        SPEC.replace("STORAGE", (tmp_path / "storage").as_uri())
    )
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "log.py").write_text(DECLARED.format(dsn=dsn))
    done = _run(remote, tmp_path, str(command), "run", "--spec", "spark-pipeline.yml")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert _count(log, "again") == EVENTS


@pytest.mark.long
def test_what_connect_cannot_do(topic: Topic, dsn: str, tmp_path: Path) -> None:
    """One sentence each, without a server."""
    app = f"{HERE.parents[2] / 'spark_handlers.py'}:note"
    (tmp_path / "pipelines.yml").write_text(PIPELINES)
    pipeline = ("pipeline", "run", "sums", "--once", "--dsn", dsn)
    for words, code, says in (
        (("run", app, "--engine", "spark", "--dsn", dsn), 2, "which Spark Connect does not have"),
        (pipeline, 1, "cannot reach Spark Connect at sc://127.0.0.1:1"),
        ((*pipeline, "--master", "local[2]"), 2, "leave one of them out"),
    ):
        done = _cli("sc://127.0.0.1:1/;token=PWtoken", tmp_path, *words)
        assert (done.returncode, says in done.stderr) == (code, True), done.stderr
        assert "PWtoken" not in done.stderr
