"""Where mutants live: a copy of the checkout, in which one file at a time is another.

The checkout itself is never written to. Each run of tests starts its own PostgreSQL, as bin/test
does; a second one tells which edits of SQL are none, for the server refuses them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Literal

import psycopg

from gapless.db.connect import connect
from gapless.db.embedded.server import embedded
from gapless.db.migrate import migrate
from mutate.mutant import ROOT, Mutant

# hung: killed, too. undecided: all tests together took too long, which tells of the machine.
Outcome = Literal["killed", "hung", "survived", "invalid", "undecided"]

TEST_S_MAX = 120  # one test, by pytest-timeout: a mutant that hangs fails it
GRACE_S = 20.0  # to end after SIGINT
FIRST_MAX = 12  # former killers of a file that are tried first
_PASSED, _FAILED, _BROKEN = 0, 1, 2
_stamps = count(1_000_000_000)


@dataclass
class Result:
    """What became of a mutant; `by` is the test that failed."""

    outcome: Outcome
    by: str = ""
    seconds: float = 0.0


@dataclass
class Memory:
    """What earlier runs taught: how long tests take, and which failed for mutants of a file."""

    seconds: dict[str, float] = field(default_factory=dict)
    killers: dict[str, Counter[str]] = field(default_factory=dict)

    def first(self, path: str) -> list[str]:
        return [name for name, _ in self.killers.get(path, Counter()).most_common(FIRST_MAX)]

    def learn(self, path: str, name: str) -> None:
        self.killers.setdefault(path, Counter())[name] += 1


class Arena:
    """One copy of the checkout; its runs follow each other."""

    def __init__(self, folder: Path, checkout: Path = ROOT) -> None:
        self.folder = folder
        self.root = folder / "checkout"
        self._process: subprocess.Popen[bytes] | None = None
        self._copy(checkout)

    def _copy(self, checkout: Path) -> None:
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=checkout, check=True, capture_output=True, text=True,
        )  # fmt: skip
        for name in filter(None, listing.stdout.split("\0")):
            if (checkout / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(checkout / name, self.root / name)

    def try_(self, mutant: Mutant, tests: list[str], memory: Memory, limit_s: float) -> Result:
        """Run tests with the mutant in place; afterwards the copy is as it was."""
        path = self.root / mutant.path
        self._write(path, mutant.mutated)
        try:
            return self.run(tests, memory, limit_s, about=mutant.path)
        finally:
            self._write(path, mutant.original)

    def run(self, tests: list[str], memory: Memory, limit_s: float, *, about: str = "") -> Result:
        """Run tests in the copy up to the first that fails, or to the end."""
        order, seen = self.folder / "order.json", self.folder / "seen.json"
        known = {"first": memory.first(about), "seconds": memory.seconds}
        order.write_text(json.dumps(known))
        seen.unlink(missing_ok=True)
        began = time.monotonic()
        with (self.folder / "output.txt").open("w") as output:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "pytest", "-x", "-q", "-p", "mutate.order",
                    "-p", "no:cacheprovider", f"--timeout={TEST_S_MAX}", *tests,
                ],
                cwd=self.root,
                env=self._environ(order, seen),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )  # fmt: skip
            code = _wait(self._process, limit_s)
        took_s = time.monotonic() - began
        if code is None:
            return Result("undecided", seconds=took_s)
        learned = json.loads(seen.read_text() if seen.exists() else "{}")
        if code == _PASSED:
            memory.seconds.update(learned["seconds"])
            return Result("survived", seconds=took_s)
        if code not in {_FAILED, _BROKEN} or (code == _BROKEN and not about):
            raise RuntimeError(f"pytest ended with {code}:\n{self.output()}")
        by = learned.get("failed") or ["nothing can be collected"]
        return Result("hung" if learned.get("hung") else "killed", by=by[0], seconds=took_s)

    def stop(self) -> None:
        """End what runs, when this process is to end."""
        if self._process is not None and self._process.poll() is None:
            _end(self._process)

    def output(self) -> str:
        """What the last run of tests printed."""
        return (self.folder / "output.txt").read_text()[-3000:]

    def _environ(self, order: Path, seen: Path) -> dict[str, str]:
        # The last one for order.py, if the copy is of another project.
        places = [self.root / "supervisor", self.root / "tests", ROOT / "tests"]
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "MUTATE_ORDER": str(order),
            "MUTATE_SEEN": str(seen),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.folder / "hypothesis"),
        }

    def _write(self, path: Path, text: str) -> None:
        """Write a source, with a time no other version has: compiled files go by it."""
        path.write_text(text)
        stamp = next(_stamps)
        os.utime(path, (stamp, stamp))


@contextmanager
def arena(checkout: Path = ROOT) -> Iterator[Arena]:
    """Make an arena for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="gapless-mutate-") as folder:
        made = Arena(Path(folder), checkout)
        try:
            yield made
        finally:
            made.stop()


class Judge:
    """Tells which edits of SQL the server refuses at once."""

    def __init__(self, dsn: str) -> None:
        self._conn = connect(dsn, role="mutate")
        migrate(self._conn)

    def takes(self, mutant: Mutant) -> bool:
        """Tell whether the file can be installed; nothing of it stays. Python: compiled."""
        if mutant.path.endswith(".py"):
            return _compiles(mutant)
        try:
            with self._conn.transaction(force_rollback=True):
                self._conn.execute(mutant.mutated.encode())
        except psycopg.Error:
            return False
        return True


@contextmanager
def judge() -> Iterator[Judge]:
    """Start a server that judges."""
    with embedded(throwaway=True) as dsn:
        yield Judge(dsn)


def _compiles(mutant: Mutant) -> bool:
    try:
        compile(mutant.mutated, mutant.path, "exec")
    except SyntaxError:
        return False
    return True


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> int | None:
    """Return the exit code; None for one that had to be ended."""
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if process.poll() is None:
            _end(process)
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
