"""The wheel installs into an empty environment and finds its SQL, its config and its flights."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

LOOK = """
import sys
from importlib.resources import files
from gapless.db.queries import queries, sql_files, sql_root
assert "site-packages" in str(sql_root()), sql_root()
names = [path.stem for path in sql_files("queries")]
assert {"log", "consume", "lease", "status"} <= set(names), names
for name in names:
    assert queries(name)
functions = [path.stem for path in sql_files("functions")]
assert {"publish", "claim_at", "sequence_events", "release_keys"} <= set(functions), functions
assert (files("gapless") / "_config" / "gapless.yml").is_file()
import gapless._flights.truth as truth
assert truth.compute(10)
assert (files("gapless") / "_flights" / "pipelines.yml").is_file()
from importlib.util import find_spec
assert find_spec("pyspark_gapless"), "what Spark finds by itself"
import gapless
from gapless.cli.main import main
assert not any(name.split(".")[0] == "yaml" for name in sys.modules), "yaml is loaded on demand"
"""

ZIPPED = """
import sys
sys.path.insert(0, sys.argv[1])
import gapless, pyspark_gapless
from gapless.db.connect import connect
from gapless.db.migrate import require_schema
from gapless.db.queries import queries, sql_files
assert sys.argv[1] in gapless.__file__ and sys.argv[1] in pyspark_gapless.__file__
for file in sql_files("queries"):
    assert queries(file.name.removesuffix(".sql"))
with connect(sys.argv[2], role="test") as conn:
    require_schema(conn)  # it reads each file
"""


@pytest.mark.long
def test_the_wheel_works_as_a_zip(wheel: Path, dsn: str, tmp_path: Path) -> None:
    """As Spark's --py-files takes it to its executors."""
    pytest.importorskip("pyspark")
    packed = wheel.rename(tmp_path / "gapless.zip")
    try:
        command = (sys.executable, "-c", ZIPPED, str(packed), dsn)
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    finally:
        packed.rename(wheel)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.long
def test_the_wheel_is_whole(wheel: Path, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    venv.create(tmp_path / "empty")
    python = tmp_path / "empty" / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", wheel)
    run(python, "-c", LOOK)
    assert "usage: gapless" in run(tmp_path / "empty" / "bin" / "gapless", "--help")
