"""A cluster whose machines see nothing of the driver's: another Spark, another Python elsewhere.

Its executors and its drivers are killed, and every event is at the other end once, in order.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import Connection

from features.spark.engine.programs import Program, environment, kill_jvm, started, until_it
from gapless.features.spark.pipeline.position import list_pipelines
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import Topic, ensure_topic
from support.spark_cluster import Cluster, cluster, make_python, zip_of_package

PATIENCE_S = 900.0
KEYS = 20
COPY = Path(__file__).with_name("copy_stream.py")
JOB = Path(__file__).with_name("count_events.py")
HANDLERS = Path(__file__).parents[3] / "spark_handlers.py"
PIPELINES = """
pipelines:
  again:
    from: outbox
    batchEvents: 1000
    columns: [key, value, event_type]
    to: {topic: copy}
"""
# Events of the copy, of these different ones, and those that come before an older one of their key.
COPIED = """
select count(*), count(distinct n), count(*) filter (where n <= before) from (
  select n, lag(n) over (partition by key order by id) as before from (
    select id, key, event_type::int as n from gapless.outbox_message_t
    join gapless.topic using (topic_id) where name = 'copy') copied) ordered
"""

BASE = str(sys._base_executable)  # type: ignore[attr-defined] # it has none of our packages
WRONG: dict[str, tuple[dict[str, str], str]] = {
    "no interpreter": (
        {"spark.pyspark.python": sys.executable},
        f"Spark's executors cannot start {sys.executable}: name the executors' Python in",
    ),
    "no package": (
        {"spark.pyspark.python": BASE},
        "the Python of Spark's executors has no package ",
    ),
    "executors that do not start": (
        {"spark.executor.extraJavaOptions": "-javaagent:/nowhere.jar"},
        "executors do not start",
    ),
    "too little memory": ({"spark.executor.memory": "8g"}, "gave no executor within 120 s"),
}

pytestmark = [pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Machines:
    """A cluster, and the Python that its executors have."""

    cluster: Cluster
    python: Path

    @property
    def settings(self) -> dict[str, str]:
        return {
            "spark.pyspark.python": str(self.python),
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.memory": "600m",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        }


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    pytest.importorskip("pyspark")
    folder = tmp_path_factory.mktemp("cluster")
    python = make_python(folder / "elsewhere")
    shutil.copy(HANDLERS, next((folder / "elsewhere" / "lib").glob("python*/site-packages")))
    with cluster(folder) as made:
        yield Machines(made, python)


@pytest.mark.long
def test_a_stream_whose_executor_and_driver_are_killed(
    machines: Machines, conn: Connection, dsn: str, topic: Topic, tmp_path: Path
) -> None:
    events = _published(conn, 3000)
    settings = [f"{name}={value}" for name, value in machines.settings.items()]
    command = (str(COPY), dsn, str(tmp_path / "checkpoint"), machines.cluster.url, *settings)
    with started(*command) as driver:
        _until(driver, lambda: _copied(conn)[0] >= 500)
        _kill_executor(machines)
        at = _copied(conn)[0]
        _until(driver, lambda: _copied(conn)[0] > at)
        kill_jvm(driver)
    assert _copied(conn)[0] < events, "it was over before it was killed"
    with started(*command) as driver:
        assert driver.wait(PATIENCE_S) == 0
    assert _copied(conn) == (events, events, 0)


@pytest.mark.soak
def test_a_pipeline_whose_executors_are_killed(
    machines: Machines, conn: Connection, dsn: str, topic: Topic, tmp_path: Path
) -> None:
    events = _published(conn, 8000)
    (tmp_path / "pipelines.yml").write_text(PIPELINES)
    command = ("-m", "gapless", "pipeline", "run", "again", "--once", *_asked(machines))
    with started(*command, cwd=tmp_path, GAPLESS_DSN=dsn) as driver:
        for share in (1000, 3000):
            _until(driver, lambda share=share: _copied(conn)[0] >= share)
            _kill_executor(machines)
        at = _copied(conn)[0]
        _until(driver, lambda: _copied(conn)[0] > at)
        kill_jvm(driver)
    assert _copied(conn)[0] < events
    with started(*command, cwd=tmp_path, GAPLESS_DSN=dsn) as driver:
        assert driver.wait(PATIENCE_S) == 0
    assert _copied(conn) == (events, events, 0)


@pytest.mark.soak
def test_handlers_whose_executors_are_killed(
    machines: Machines, conn: Connection, dsn: str, topic: Topic, tmp_path: Path
) -> None:
    """The module of the handlers is installed on the executors, at another path."""
    conn.execute("create table effect (partition_id int, c_offset bigint, n int)")
    events = _published(conn, 8000)
    command = ("-m", "gapless", "run", "spark_handlers:note", "--engine", "spark")
    done = "select count(*), count(distinct n) from effect"
    with started(*command, *_asked(machines), cwd=tmp_path, GAPLESS_DSN=dsn) as driver:
        for share in (1000, 3000):
            _until(driver, lambda share=share: conn.execute(done).fetchone()[0] >= share)
            _kill_executor(machines)
        _until(driver, lambda: conn.execute(done).fetchone()[0] >= events)
        driver.send_signal(signal.SIGTERM)
        assert driver.wait(PATIENCE_S) == 0
    assert conn.execute(done).fetchone() == (events, events)


@pytest.mark.soak
@pytest.mark.parametrize("row", WRONG)
def test_what_is_wrong_is_one_sentence_of_the_run_and_of_status(
    machines: Machines, conn: Connection, dsn: str, topic: Topic, tmp_path: Path, row: str
) -> None:
    settings, says = WRONG[row]
    _published(conn, 10)
    (tmp_path / "pipelines.yml").write_text(PIPELINES)
    asked = _asked(machines, settings)
    done = subprocess.run(
        [sys.executable, "-m", "gapless", "pipeline", "run", "again", "--once", *asked],
        env=environment(GAPLESS_DSN=dsn),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if line.startswith("gapless: ")]
    assert says in said[-1]
    (standing,) = list_pipelines(conn)
    assert says in str(standing.error)
    assert _copied(conn) == (0, 0, 0)


@pytest.mark.soak
def test_a_job_that_brings_its_environment_and_the_package(
    machines: Machines, conn: Connection, dsn: str, topic: Topic, tmp_path: Path
) -> None:
    """spark-submit with a packed environment, and with gapless as a zip."""
    _published(conn, 100)
    python = make_python(tmp_path / "packed", ours=False)
    shutil.make_archive(str(tmp_path / "packed"), "tar", tmp_path / "packed")
    settings = {
        **machines.settings,
        "spark.archives": f"{tmp_path / 'packed.tar'}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.pyspark.driver.python": sys.executable,
    }
    shutil.rmtree(python.parents[1])
    said = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("spark-submit")), *said),
            *("--master", machines.cluster.url),
            *("--py-files", str(zip_of_package(tmp_path / "gapless.zip")), str(JOB)),
        ],
        env=environment(GAPLESS_DSN=dsn),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    events, where, package = done.stdout.splitlines()[-1].split()
    assert events == "100"
    assert "/environment/bin/python" in where
    assert "gapless.zip" in package


def _published(conn: Connection, events: int) -> int:
    ensure_topic(conn, "copy", partitions=2)
    for start in range(0, events, 100):
        numbers = range(start, start + 100) if events > 100 else range(events)
        publish(
            conn,
            "outbox",
            [NewEvent(payload={"n": n}, key=str(n % KEYS), event_type=str(n)) for n in numbers],
        )
    return events


def _copied(conn: Connection) -> tuple[int, ...]:
    return conn.execute(COPIED).fetchone() or ()


def _asked(machines: Machines, more: dict[str, str] | None = None) -> list[str]:
    settings = {**machines.settings, **(more or {})}
    said = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return ["--master", machines.cluster.url, *said]


def _kill_executor(machines: Machines) -> None:
    executor = machines.cluster.executors()[0]
    os.kill(executor, signal.SIGKILL)


def _until(process: Program, look: Callable[[], bool]) -> None:
    until_it(process, look, PATIENCE_S)
