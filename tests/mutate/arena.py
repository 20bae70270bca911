"""Where mutants live: a copy of the checkout, in which one file at a time is another.

The checkout itself is never written to. Tests run in processes that a pytest forks which has imported
them already and keeps a PostgreSQL (keep.py); an edit of what a module does when it is imported has a
pytest of its own.
"""

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
from typing import Any, Literal

from mutate.keep import UNFIT
from mutate.mutant import ROOT, Mutant
from mutate.patch import is_fit
from mutate.words import nearest, words

# hung: killed, too. undecided: all tests together took too long, which tells of the machine.
Outcome = Literal["killed", "hung", "survived", "invalid", "undecided"]

TEST_S_MAX = 240  # one test, by pytest-timeout: a mutant that hangs fails it
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

    def __init__(self, folder: Path, checkout: Path, test_s_max: int) -> None:
        self._test_s_max = test_s_max
        self.folder = folder
        self.root = folder / "checkout"
        self._kept: subprocess.Popen[bytes] | None = None
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
        """Run tests with the mutant in place, the nearest first; then the copy is as it was.

        The test that failed must pass without it: else nothing is known.
        """
        near = self._near(mutant, tests, memory) if len(tests) > 1 else []
        result = self._try(mutant, near, memory, limit_s) if near else None
        if result is None or result.outcome == "survived":
            result = self._try(mutant, tests, memory, limit_s)
        if result.outcome == "survived" and mutant.path.endswith(".py"):
            # Perhaps it is about what happens when tests are imported.
            result = self._try(mutant, tests, memory, limit_s, anew=True)
        if "::" in result.by and self.run([result.by], memory, limit_s).outcome != "survived":
            self.stop()  # the server may have something left
            return Result("undecided", result.by, result.seconds)
        return result

    def _near(self, mutant: Mutant, tests: list[str], memory: Memory) -> list[str]:
        """Return the files that speak of it, and those that had a test that failed for its file."""
        files = nearest(tests, words(mutant, self.root), self.root)
        files += (name.partition("::")[0] for name in memory.first(mutant.path))
        return [file for file in dict.fromkeys(files) if (self.root / file).is_file()]

    def _try(
        self,
        mutant: Mutant,
        tests: list[str],
        memory: Memory,
        limit_s: float,
        *,
        anew: bool = False,
    ) -> Result:
        path = self.root / mutant.path
        self._ask({"import": tests})
        self._write(path, mutant.mutated)
        try:
            return self.run(tests, memory, limit_s, mutant=mutant, anew=anew)
        finally:
            self._write(path, mutant.original)

    def run(
        self,
        tests: list[str],
        memory: Memory,
        limit_s: float,
        *,
        mutant: Mutant | None = None,
        anew: bool = False,
    ) -> Result:
        """Run tests in the copy up to the first that fails, or to the end.

        anew: in a pytest of its own, which imports all with the mutant in place.
        """
        seen = self.folder / "seen.json"
        known = {
            "first": memory.first(mutant.path) if mutant else [],
            "seconds": memory.seconds,
            "words": words(mutant, self.root) if mutant else [],
        }
        (self.folder / "order.json").write_text(json.dumps(known))
        seen.unlink(missing_ok=True)
        began = time.monotonic()
        if mutant is None:
            self._ask({"import": tests})
        code = self._code(tests, mutant, limit_s, anew=anew)
        took_s = time.monotonic() - began
        if code is None:
            return Result("undecided", seconds=took_s)
        learned = json.loads(seen.read_text() if seen.exists() else "{}")
        if code == _PASSED:
            memory.seconds.update(learned["seconds"])
            return Result("survived", seconds=took_s)
        if code not in {_FAILED, _BROKEN} or (code == _BROKEN and mutant is None):
            raise RuntimeError(f"pytest ended with {code}:\n{self.output()}")
        by = learned.get("failed") or ["nothing can be collected"]
        return Result("hung" if learned.get("hung") else "killed", by=by[0], seconds=took_s)

    def _code(
        self, tests: list[str], mutant: Mutant | None, limit_s: float, *, anew: bool
    ) -> int | None:
        """Ask the pytest that stays, if that will do; else start one. Return its exit code."""
        request: dict[str, Any] = {"tests": tests, "patch": None, "limit_s": limit_s}
        if mutant is None or mutant.path.endswith(".sql"):
            return self._ask(request)
        if not anew and is_fit(mutant.original, mutant.mutated):
            request["patch"] = [mutant.path, mutant.original, mutant.mutated]
            code = self._ask(request)
            if code != UNFIT:
                return code
        return _wait(self._start("mutate.order", *tests), limit_s)

    def _ask(self, request: dict[str, Any]) -> int | None:
        if self._kept is None:
            self._kept = self._start("mutate.keep", "tests", pipe=True)
        assert self._kept.stdin is not None
        assert self._kept.stdout is not None
        self._kept.stdin.write(json.dumps(request).encode() + b"\n")
        self._kept.stdin.flush()
        answer = self._kept.stdout.readline()
        if not answer:
            raise RuntimeError(f"pytest has ended:\n{self.output()}")
        code: int | None = json.loads(answer)
        return code

    def _start(self, plugin: str, *tests: str, pipe: bool = False) -> subprocess.Popen[bytes]:
        with (self.folder / "output.txt").open("a") as output:
            return subprocess.Popen(
                [
                    sys.executable, "-m", "pytest", "-x", "-q", "-p", "mutate.order", "-p", plugin,
                    "-p", "no:cacheprovider", f"--timeout={self._test_s_max}", *tests,
                ],
                cwd=self.root,
                env=self._environ(),
                stdin=subprocess.PIPE if pipe else subprocess.DEVNULL,
                stdout=subprocess.PIPE if pipe else output,
                stderr=output,
                start_new_session=True,
            )  # fmt: skip

    def stop(self) -> None:
        """End the pytest that stays; another is started when one is needed."""
        if self._kept is not None:
            kept, self._kept = self._kept, None
            with kept:  # closes the pipes: it ends
                assert kept.stdin is not None
                kept.stdin.close()
                _wait(kept, GRACE_S)

    def output(self) -> str:
        """What the last run of tests printed."""
        return (self.folder / "output.txt").read_text()[-3000:]

    def _environ(self) -> dict[str, str]:
        # The last one for order.py, if the copy is of another project.
        places = [self.root / "supervisor", self.root / "tests", ROOT / "tests"]
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, places)),
            "MUTATE_ORDER": str(self.folder / "order.json"),
            "MUTATE_SEEN": str(self.folder / "seen.json"),
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.folder / "hypothesis"),
        }

    def _write(self, path: Path, text: str) -> None:
        """Write a source, with a time no other version has: compiled files go by it."""
        path.write_text(text)
        stamp = next(_stamps)
        os.utime(path, (stamp, stamp))


@contextmanager
def arena(checkout: Path = ROOT, test_s_max: int = TEST_S_MAX) -> Iterator[Arena]:
    """Make an arena for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="gapless-mutate-") as folder:
        made = Arena(Path(folder), checkout, test_s_max)
        try:
            yield made
        finally:
            made.stop()


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
