"""Supervisors with webhooks, and keys of one partition."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from gapless.log.topics import Topic
from support.commands import environment
from support.endpoint import SECRET, Server
from support.patience import bounded_patience

Start = Callable[[], subprocess.Popen[str]]


@pytest.fixture
def start(dsn: str, topic: Topic, tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []
    log = (tmp_path / "log").open("w")

    def begin() -> subprocess.Popen[str]:
        env = environment(GAPLESS_DSN=dsn, GAPLESS_WEBHOOKALLOW="127.0.0.0/8", HOOK=SECRET)
        words = [sys.executable, "-m", "gapless", "run", "--webhooks"]
        process = subprocess.Popen(words, env=env, stdout=log, stderr=log, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
    log.close()
    print((tmp_path / "log").read_text()[-8000:])  # noqa: T201 - pytest shows it when the test failed


def _until(holds: Callable[[], bool], what: str, patience_s: float = 60.0) -> None:
    give_up_s = time.monotonic() + bounded_patience(patience_s)
    while not holds():
        assert time.monotonic() < give_up_s, what
        time.sleep(0.1)


def require_recorded(conn: Connection, server: Server, name: str, numbers: set[int]) -> None:
    """Assert that each recorded attempt was a call, once, and that calls with these numbers are."""
    calls = Counter(
        (call.json["partition"], call.json["events"][0]["offset"]) for call in server.of(f"/{name}")
    )
    rows = conn.execute(
        "select partition_id, first_offset from gapless.webhook_attempts where name = %s", [name]
    ).fetchall()
    assert rows
    assert Counter(rows) <= calls
    places = {
        (call.json["partition"], event["offset"])
        for call in server.of(f"/{name}")
        for event in call.json["events"]
        if payload_number(event["data"]) in numbers
    }
    assert places
    assert places <= set(rows)


def payload_number(data: Any) -> int:
    return int(data["n"] if isinstance(data, dict) else data)


def _ids_are_stable(server: Server, path: str) -> bool:
    names: dict[str, set[str]] = {}
    for call in server.of(path):
        names.setdefault(str(call.json["events"][0]["data"]), set()).add(call.id)
    return all(len(each) == 1 for each in names.values())


def keys_of_one_partition(conn: Connection, number: int) -> list[str]:
    """Return keys; a drain waits for the calls of one before it turns to the next."""
    rows = conn.execute(
        "select n::text from generate_series(1, 10000) n"
        " where gapless.partition_of(n::text, 4) = 0 limit %s",
        [number],
    )
    return [row[0] for row in rows.fetchall()]
