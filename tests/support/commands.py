"""The real command as a subprocess: `gapless(...)` runs it to its end, `start(...)` starts it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from support.forked import Forks

TIMEOUT_S = 60


@dataclass(frozen=True)
class Run:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def complaint(self, code: int = 2) -> str:
        """Return the line on stderr of a refused command; it printed nothing else."""
        assert self.code == code, self
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("gapless: ")
        assert "Traceback" not in self.err
        return self.err.removeprefix("gapless: ").rstrip("\n")

    def complaint_last(self, code: int = 2) -> str:
        """Return the same line if warnings of the configuration come first."""
        *warnings, last = self.err.splitlines()
        assert all(line.startswith("gapless: warning: ") for line in warnings), self.err
        return Run(self.code, self.out, f"{last}\n").complaint(code)


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without any variable that names a database.

    PYTHONUNBUFFERED is left out, too: a test must see output that is not flushed in time.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "GAPLESS", "DB_EVENT", "PYTHONUNBUFFERED"))
        or name in {"GAPLESS_PG_BINDIR", "GAPLESS_SCHEMA"}
    }
    return {**kept, **more}


Gapless = Callable[..., Run]


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    """Yield the process from which commands are forked."""
    made = Forks()
    yield made
    made.close()


@pytest.fixture(scope="session")
def unproven(pytestconfig: pytest.Config) -> Callable[[Sequence[str | bytes]], bool]:
    """Tell, once for each command and verb, whether it has to run as a program: with --long."""
    proven: set[Sequence[str | bytes]] | None = set() if pytestconfig.getoption("--long") else None

    def is_unproven(words: Sequence[str | bytes]) -> bool:
        if proven is None or words[:2] in proven:
            return False
        proven.add(words[:2])
        return True

    return is_unproven


@pytest.fixture
def bare(forks: Forks, unproven: Callable[[Sequence[str | bytes]], bool]) -> Gapless:
    """Run the command without any database configured."""

    def run(*words: str | bytes, stdin: str | bytes = b"", **env: str) -> Run:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        if forks.can(words, environment(**env)) and not unproven(words):
            code, out, err = forks.run(words, given, environment(**env), TIMEOUT_S)
            return Run(code, out.decode(), err.decode())
        done = subprocess.run(
            [sys.executable, "-m", "gapless", *words],
            input=given,
            capture_output=True,
            env=environment(**env),
            timeout=TIMEOUT_S,
            check=False,
        )
        return Run(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def gapless(bare: Gapless, dsn: str) -> Gapless:
    """Run the command on the test's database."""

    def run(*words: str | bytes, **options: Any) -> Run:
        return bare(*words, **{"GAPLESS_DSN": dsn, **options})

    return run


@pytest.fixture
def start(dsn: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the command on the test's database; kill it at the end if it still runs."""
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "gapless", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(GAPLESS_DSN=dsn, **env),
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()
