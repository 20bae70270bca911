"""Processes of a run: those on the machines, and the network between them and the server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Any

from chaos.proxy import Mode

TESTS = Path(__file__).parents[1]
LOOK_AGAIN_S = 0.01


class Proxy:
    """The network between the machines and the server (chaos.proxy), one line for each machine."""

    def __init__(self, upstream: str, lines: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chaos.proxy", upstream, str(lines)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        self.ports: list[int] = self._answer()["ports"]

    def mode(self, line: int, mode: Mode) -> None:
        self.order(line, mode=mode)

    def eaten(self, line: int) -> int:
        """How many answers to COMMIT were swallowed on a line so far."""
        return int(self.order(line)["eaten"])

    def order(self, line: int, **what: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"line": line, **what}) + "\n")
        return self._answer()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()  # closes the pipes

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@dataclass(eq=False)
class Process:
    """A process that was started for a run, in a session and process group of its own."""

    name: str
    line: int  # of the proxy: the machine it runs on
    popen: subprocess.Popen[bytes]
    log_path: Path

    @property
    def pid(self) -> int:
        return self.popen.pid

    def is_running(self) -> bool:
        return self.popen.poll() is None

    def children(self) -> list[int]:
        """The pids of its children that live, lowest first."""
        return children_of(self.pid)

    def signal(self, number: Signals) -> None:
        """Signal it alone."""
        self.popen.send_signal(number)

    def signal_all(self, number: Signals) -> None:
        """Signal it and all its children, as the end of a machine would."""
        if self.is_running():  # else its pid may be somebody else's by now
            os.killpg(self.pid, number)

    def end(self, timeout_s: float) -> int | None:
        """Wait for its end; return its exit code, or None when it still runs then."""
        with suppress(subprocess.TimeoutExpired):
            return self.popen.wait(timeout_s)
        return None


def environment() -> dict[str, str]:
    """The environment of what is started: it finds this package, and no setting of ours."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("GAPLESS_", "PG"))}
    paths = [str(TESTS), str(TESTS.parent / "supervisor"), os.environ.get("PYTHONPATH", "")]
    return inherited | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def is_up(supervisor: Process) -> bool:
    """Tell whether it minds its signals: before it joined, SIGTERM just ends it."""
    return "joined" in supervisor.log_path.read_text(errors="replace")


def running(processes: Iterable[Process]) -> list[Process]:
    return [process for process in processes if process.is_running()]


def title(pid: int) -> str:
    """What a process calls itself, "" when it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def is_stopped(pid: int) -> bool:
    """Tell whether it stands still, after SIGSTOP."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"
    return False


def children_of(pid: int) -> list[int]:
    """The pids of the children that a process has now, whichever thread forked; lowest first."""
    found: list[int] = []
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, listing.read_text().split())
    return sorted(found)
