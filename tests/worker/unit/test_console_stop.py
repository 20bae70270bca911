"""Ctrl-Z under the console: it stops first, for it has the terminal to give back; then the supervisor."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.servers import until

# The supervisor's side of it, with a console that answers as a test wants.
SCRIPT = """
import os, signal, time
from gapless.worker import console as module

module._STOP_S_MAX = {patience_s}
it = module._ConsoleProcess.__new__(module._ConsoleProcess)
it._stop_noted = True
ready, told = os.pipe()
parent = os.getpid()
it._pid = os.fork()
if it._pid == 0:
    def answer(*_):
        {answer}
    signal.signal(signal.SIGTSTP, answer)
    os.write(told, b"!")
    while os.getppid() == parent:
        time.sleep(0.05)
    os._exit(0)
os.read(ready, 1)
print(it._pid, flush=True)
it.tick()
print("goes on", flush=True)
"""


@contextmanager
def _supervisor(
    tmp_path: Path, answer: str, patience_s: float
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Press Ctrl-Z; the supervisor, and its console's pid."""
    script = tmp_path / "stop.py"
    script.write_text(SCRIPT.format(answer=answer, patience_s=patience_s))
    popen = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert popen.stdout is not None
    console = int(popen.stdout.readline())
    try:
        yield popen, console
    finally:
        with suppress(ProcessLookupError):
            os.kill(console, signal.SIGKILL)
        popen.kill()
        popen.communicate()


def _state(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return ""


def test_it_does_not_wait_forever(tmp_path: Path) -> None:
    with _supervisor(tmp_path, "pass", 0.1) as (supervisor, _):
        assert until(lambda: _state(supervisor.pid) == "T")
        os.kill(supervisor.pid, signal.SIGCONT)
        assert supervisor.wait(60) == 0


GIVE_UP = """
import os, signal, time
from gapless.worker import console as module

module._END_S_MAX = 0.05
it = module._ConsoleProcess.__new__(module._ConsoleProcess)
it._modes = None
it._pid = os.fork()
if it._pid == 0:
    time.sleep(600)
    os._exit(0)
console = it._pid
it.end()
try:
    os.kill(console, 0)
    print("it is left behind")
except ProcessLookupError:
    print("gone", it._pid)
"""


def test_a_console_that_does_not_end_is_ended() -> None:
    """And waited for: a process that is left behind would stay as long as the supervisor's parent."""
    done = subprocess.run(
        [sys.executable, "-c", GIVE_UP], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("gone None\n")
