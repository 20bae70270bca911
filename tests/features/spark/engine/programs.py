"""Programs of Spark in sessions of their own, with what is left of them killed at the end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chaos.process import children_of, title

Program = subprocess.Popen[bytes]


def environment(**more: str) -> dict[str, str]:
    """The environment of a program that imports what the tests do; PySpark left names in this one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    return {**kept, "PYTHONPATH": os.pathsep.join(sys.path), **more}


@contextmanager
def started(*command: str, cwd: Path | None = None, **env: str) -> Iterator[Program]:
    process = subprocess.Popen(
        [sys.executable, *command], env=environment(**env), cwd=cwd, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def kill_jvm(process: Program) -> None:
    """Kill the JVM and the program at once."""
    for pid in children_of(process.pid):
        if "SparkSubmit" in title(pid):
            os.kill(pid, signal.SIGKILL)
    process.kill()


def until_it(process: Program, look: Callable[[], bool], patience_s: float) -> None:
    """Wait for something that a program does."""
    give_up_s = time.monotonic() + patience_s
    while not look():
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < give_up_s
        time.sleep(0.05)
