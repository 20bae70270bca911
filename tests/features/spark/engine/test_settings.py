"""Whose setting counts: the command line, pipelines.yml, what Spark finds by itself, gapless's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict

from gapless.errors import UsageError
from gapless.features.spark.session import spark_session
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import Topic
from support.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 20
PIPELINES = """
conf:
  spark.sql.session.timeZone: America/New_York
  spark.sql.broadcastTimeout: 500
pipelines:
  seen:
    from: outbox
    sql: select cast(get_json_object(value, '$.n') as bigint) as n, timestamp as at from events
    to: {table: seen}
    conf:
      spark.sql.autoBroadcastJoinThreshold: -1
      spark.sql.adaptive.enabled: false
"""
DEFAULTS = """
spark.sql.shuffle.partitions   33
spark.sql.session.timeZone=Europe/Berlin
spark.sql.broadcastTimeout: 400
spark.sql.timestampType   TIMESTAMP_NTZ
spark.app.name            theirs
spark.driver.memory       600m
spark.eventLog.enabled    true
spark.eventLog.compress   false
spark.eventLog.rolling.enabled false
spark.executorEnv.PGDATABASE postgres
"""


@pytest.mark.long
@pytest.mark.timeout(900)
def test_of_a_run_of_a_pipeline(conn: Connection, dsn: str, topic: Topic, tmp_path: Path) -> None:
    """Nor does a run need a setting to be right, and its tasks reach the driver's database."""
    events = [NewEvent(payload={"n": n}, key=str(n)) for n in range(EVENTS)]
    publish(conn, "outbox", events)
    conn.execute("create table seen (n bigint, at timestamptz)")
    (tmp_path / "pipelines.yml").write_text(PIPELINES)
    (tmp_path / "log").mkdir()
    folder = tmp_path / "conf"
    folder.mkdir()
    log = f"spark.eventLog.dir {(tmp_path / 'log').as_uri()}\n"
    (folder / "spark-defaults.conf").write_text(DEFAULTS + log)
    done = _run_pipeline(dsn, tmp_path, folder)
    assert done.returncode == 0, done.stderr
    assert "Stage 0:" not in done.stderr, "no bar where nobody asked for one"
    (file,) = (tmp_path / "log").iterdir()
    assert "PWenvWP" not in file.read_text()
    settings = _settings(file)
    for name, value in {
        "spark.sql.session.timeZone": "Asia/Tokyo",  # of the command line
        "spark.sql.broadcastTimeout": "500",  # of the file, for all its pipelines
        "spark.sql.adaptive.enabled": "false",  # of the pipeline
        "spark.sql.shuffle.partitions": "33",  # of spark-defaults.conf
        "spark.app.name": "theirs",
        "spark.ui.enabled": "false",  # gapless's own
        "spark.master": "local[2,4]",
    }.items():
        assert settings.get(name) == value, name
    wrong = conn.execute(
        "select count(*) from gapless.outbox_message_t o"
        " full join seen s on s.n = (o.payload ->> 'n')::bigint"
        " where s.at is distinct from o.created_ts"
    ).fetchone()
    assert wrong == (0,), "the same moments, whatever the session's time zone"
    assert conn.execute("select count(*) from seen").fetchone() == (EVENTS,)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_of_a_run_of_handlers(conn: Connection, dsn: str, topic: Topic, tmp_path: Path) -> None:
    """`gapless run --engine spark --conf` says it to the session that its tasks run in.

    Its driver can be asked for health and metrics, as a supervisor can.
    """
    conn.execute("create table effect (partition_id int, c_offset bigint, n int)")
    publish(conn, "outbox", [NewEvent(payload={"n": n}, key=str(n)) for n in range(EVENTS)])
    (tmp_path / "log").mkdir()
    folder = tmp_path / "conf"
    folder.mkdir()
    log = f"spark.eventLog.dir {(tmp_path / 'log').as_uri()}\n"
    (folder / "spark-defaults.conf").write_text(DEFAULTS + log)
    app = f"{Path(__file__).parents[3] / 'spark_handlers.py'}:note"
    port = free_port()
    driver = subprocess.Popen(
        [
            *_command("run", app),
            *("--engine", "spark", "--log-format", "text", "--metrics", f"127.0.0.1:{port}"),
            *SAID,
        ],
        env=_environment(dsn, folder),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        give_up_s = time.monotonic() + 600
        while conn.execute("select count(*) from effect").fetchone() != (EVENTS,):
            assert driver.poll() is None, driver.communicate()[1]
            assert time.monotonic() < give_up_s
            time.sleep(0.2)
        for path in ("healthz", "readyz"):
            assert _get(port, path)[0] == 200
        found = _get(port, "metrics")[1]
        assert "gapless_member 1.0" in found
        assert 'gapless_lag_events{group="on-spark",partition="0",topic="outbox"}' in found
        driver.terminate()
        assert driver.wait(120) == 0
    finally:
        driver.kill()
        driver.communicate()
    (file,) = (tmp_path / "log").iterdir()
    settings = _settings(file)
    assert settings["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert settings["spark.sql.shuffle.partitions"] == "33", "of spark-defaults.conf"


def _get(port: int, path: str) -> tuple[int, str]:
    with urlopen(f"http://127.0.0.1:{port}/{path}", timeout=20) as answer:
        return answer.status, answer.read().decode()


SAID = ("--master", "local[2]", "--conf", "spark.sql.session.timeZone=Asia/Tokyo")


def _command(*words: str) -> list[str]:
    return [sys.executable, "-m", "gapless", *words]


def _environment(dsn: str, conf: Path) -> dict[str, str]:
    """A database that PG* names, and Spark's own settings in a folder."""
    said = conninfo_to_dict(dsn)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "SPARK_CONF_DIR": str(conf),
        "PGHOST": str(said["host"]),
        "PGPORT": str(said["port"]),
        "PGUSER": str(said["user"]),
        "PGDATABASE": str(said["dbname"]),
        "PGPASSWORD": "PWenvWP",
    }


def _run_pipeline(dsn: str, cwd: Path, conf: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_command("pipeline", "run", "seen", "--once"), *SAID],
        env=_environment(dsn, conf),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=800,
    )


def _settings(file: Path) -> dict[str, str]:
    """What Spark says its settings are, in its event log."""
    found: dict[str, str] = {}
    for line in file.read_text().splitlines():
        event: Any = json.loads(line)
        if event["Event"] == "SparkListenerEnvironmentUpdate":
            found |= event["Spark Properties"]
    return found


def test_of_a_session_that_runs(spark: SparkSession) -> None:
    """It is taken as it is; what is said is said to it, unless it cannot take it any more."""
    names = ("spark.sql.shuffle.partitions", "spark.sql.session.timeZone")
    before = {name: spark.conf.get(name) for name in names}
    options = "spark.sql.redaction.options.regex"
    try:
        spark.conf.set(names[1], "Europe/Berlin")
        spark.conf.set(options, "(?i)mine")
        assert spark_session().sparkContext is spark.sparkContext
        assert spark.conf.get(names[0]) == before[names[0]] == "2"
        assert spark.conf.get(names[1]) == "Europe/Berlin"
        spark_session(conf={names[0]: "7", "spark.driver.memory": "600m"})
        assert spark.conf.get(names[0]) == "7"
        assert spark.conf.get(options) == "(?:(?i)mine)|(?i:url|dsn)"
        for name in ("spark.executor.memory", "spark.sql.warehouse.dir"):
            with pytest.raises(UsageError, match=f"{name}: the Spark session that runs cannot"):
                spark_session(conf={name: "9g"})
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))
