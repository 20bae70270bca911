"""The log as lines in a pipe: each line once, where the pipe is read; a full pipe keeps nobody."""

import subprocess
import sys
from pathlib import Path

# The writer is forked, as a supervisor is; what it says to anybody else comes out of this process.
FORK = """
import logging, os, sys
from gapless.worker.log_pipe import LogPipe

logging.basicConfig(stream=sys.stdout, format="elsewhere: %(message)s")
log = logging.getLogger("gapless.supervisor")
pipe = LogPipe()
reader = os.getpid()
if (child := os.fork()) == 0:
    try:
        pipe.write_here()
        {write}
        pipe.close()
    finally:
        sys.stdout.flush()
        os._exit(0)
pipe.read_here(os.getppid())
{wait}
lines = []
while not pipe.has_ended:
    lines += pipe.collect()
{tell}
"""


def _lines(tmp_path: Path, write: str, *, wait: str = "", tell: str) -> list[str]:
    script = tmp_path / "fork.py"
    script.write_text(FORK.format(write=write, wait=wait, tell=tell))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_line_comes_once_and_nowhere_else(tmp_path: Path) -> None:
    write = "log.info('joined'); log.debug('a detail')"
    assert _lines(tmp_path, write, tell="print(lines)") == ["['joined']"]


def test_what_finds_the_pipe_full_is_lost_and_nobody_waits(tmp_path: Path) -> None:
    """The reader reads nothing before the writer has ended."""
    write = "[log.info('%s', 'x' * 1000) for _ in range(500)]"
    wait = "os.waitpid(child, 0)"
    (told,) = _lines(tmp_path, write, wait=wait, tell="print(0 < len(lines) < 500, len(pipe.last))")
    assert told == "True 20"
