"""A supervisor with metrics, as `gapless run` starts it, and its outputs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from psycopg import Connection

from gapless.log.publish import publish
from gapless.log.topics import ensure_topic
from support.commands import environment
from support.fleet import until

APP = Path(__file__).with_name("programs") / "watched_app.py"
QUICK = {
    "GAPLESS_MEMBERTTLMS": "1000",
    "GAPLESS_HEARTBEATMS": "200",
    "GAPLESS_CONNECTTIMEOUTS": "1",
}

Labels = frozenset[tuple[str, str]]


def labels(**pairs: object) -> Labels:
    return frozenset((name, str(value)) for name, value in pairs.items())


@dataclass
class Scrape:
    """The contents of /metrics: samples by name, families by name."""

    samples: dict[str, dict[Labels, float]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    def value(self, name: str, **wanted: object) -> float:
        """Return the sum of all samples with these labels."""
        asked = labels(**wanted)
        return sum(value for found, value in self.samples.get(name, {}).items() if asked <= found)


def parsed(text: str) -> Scrape:
    scrape = Scrape()
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        scrape.kinds[name] = family.type
        for sample in family.samples:
            found = scrape.samples.setdefault(sample.name, {})
            found[frozenset(sample.labels.items())] = sample.value
    return scrape


class Watched:
    """`gapless run APP --metrics`, and its log."""

    def __init__(self, process: subprocess.Popen[bytes], log_path: Path) -> None:
        self.process = process
        self.log_path = log_path
        self.port = int(until(self._port, "the port is told", within=self.log))

    def log(self) -> str:
        return self.log_path.read_text()

    def lines(self) -> list[dict[str, Any]]:
        """Return the log's lines, of JSON."""
        found = []
        for line in self.log().splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return found

    def read(self, path: str) -> tuple[int, str]:
        """Return a status, and the text."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def scrape(self) -> Scrape:
        status, text = self.read("/metrics")
        assert status == 200, text
        return parsed(text)

    def until_ready(self) -> None:
        until(lambda: self.read("/readyz") == (200, "ready\n"), "ready", within=self.log)

    def child(self, title: str) -> int | None:
        """Return the pid of a child of that title."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        for pid in listed.split():
            with suppress(OSError):
                if title in Path(f"/proc/{pid}/cmdline").read_bytes().decode():
                    return int(pid)
        return None

    def _port(self) -> str | None:
        assert self.process.poll() is None, self.log()
        found = re.search(r"metrics: port (\d+)", self.log())
        return found[1] if found else None


Watch = Callable[..., Watched]


@pytest.fixture
def orders(conn: Connection) -> None:
    """Make topic orders of two partitions, and `paid` of one; `calls` returns the calls of handlers."""
    ensure_topic(conn, "orders", partitions=2)
    ensure_topic(conn, "paid", partitions=1)


@pytest.fixture
def watch(dsn: str, orders: None, tmp_path: Path) -> Iterator[Watch]:
    """Start supervisors of app.py; end them at the end of the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str, app: str = str(APP), **env: str) -> Watched:
        log_path = tmp_path / f"{len(started)}.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "gapless", "run", app, "--metrics", "127.0.0.1:0", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(
                    **{"GAPLESS_DSN": dsn, "CALLS": str(tmp_path / "calls"), **QUICK, **env}
                ),
                start_new_session=True,
            )
        started.append(process)
        return Watched(process, log_path)

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def calls(tmp_path: Path) -> Callable[[], list[str]]:
    """Return a function for the calls of the handlers of app.py so far: a word for each call."""

    def read() -> list[str]:
        path = tmp_path / "calls"
        return path.read_text().split() if path.exists() else []

    return read


def order(conn: Connection, number: int = 1, **payload: object) -> None:
    """Publish orders, one a transaction, over all partitions."""
    for n in range(number):
        publish(conn, "orders", {"n": n, **payload}, key=str(n))


def pause_s(seconds: float) -> None:
    """Let time pass, in tests of time itself."""
    time.sleep(seconds)
