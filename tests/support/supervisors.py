"""Supervisors of queue groups, each a `gapless run` of its own with the handlers of app.py."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.log.topics import ensure_topic
from support.fleet import until
from support.patience import bounded_patience
from support.programs.queue_app import MAKE

APP = Path(__file__).with_name("programs") / "queue_app.py"
PATIENCE_S = 20.0


class Runs:
    """All processes `gapless run` of a test, on one database with the topics jobs and urgent."""

    def __init__(self, dsn: str, conn: Connection[Any], folder: Path) -> None:
        self.dsn = dsn
        self.conn = conn
        self.folder = folder
        self.running: list[subprocess.Popen[bytes]] = []
        self._numbers = 0
        conn.execute(MAKE)
        for topic in ("jobs", "urgent"):
            ensure_topic(conn, topic, partitions=2)

    def start(
        self, *handlers: str, workers: int = 2, environ: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a supervisor of these handlers of app.py; environ: settings and the app's own."""
        options = ["--dsn", self.dsn, "--workers", str(workers)]
        words = [f"{APP}:{name}" for name in handlers]
        quick = {
            "GAPLESS_MEMBERTTLMS": "1500",
            "GAPLESS_HEARTBEATMS": "300",
            "GAPLESS_SUSPECTGRACEMS": "500",
            "PYTHONPATH": os.pathsep.join([str(APP.parents[2]), os.environ.get("PYTHONPATH", "")]),
            "DSN": self.dsn,
            "PIDS": str(self.folder),
        }
        with (self.folder / f"run-{len(self.running)}.log").open("wb") as log:
            made = subprocess.Popen(
                [sys.executable, "-m", "gapless", "run", *words, *options],
                env={**os.environ, **quick, **(environ or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.running.append(made)
        return made

    def publish(self, *payloads: dict[str, Any], topic: str = "jobs", count: int = 0) -> list[int]:
        """Publish events, each with a number and a key of its own; return the numbers."""
        numbers = []
        with connect(self.dsn, role="test") as conn, conn.transaction():
            for payload in payloads or ({},) * count:
                self._numbers += 1
                numbers.append(self._numbers)
                conn.execute(
                    "select gapless.publish(%s, %s::json, %s)",
                    [topic, json.dumps({**payload, "n": self._numbers}), f"k{self._numbers}"],
                )
        return numbers

    def done(self) -> Counter[int]:
        """Return how often the effects of each event are there."""
        return Counter(n for (n,) in self.conn.execute("select n from done").fetchall())

    def until_done(self, numbers: list[int], timeout_s: float = PATIENCE_S) -> None:
        """Wait until the effects of all of these are there."""
        until(
            lambda: set(numbers) <= set(self.done()),
            f"{len(numbers)} events done",
            timeout_s=timeout_s,
            within=lambda: f"{len(set(numbers) - set(self.done()))} missing\n{self.state()}",
        )

    def until_most_done(self, numbers: list[int]) -> None:
        """Wait until at most two rounds of a test are missing."""
        until(lambda: len(self.done()) >= len(numbers) - 60, "most are done", within=self.state)

    def until_empty(self, group: str, timeout_s: float = PATIENCE_S) -> None:
        """Wait until nothing of a group is open, in hand, or waits; nor for an offset."""

        def empty() -> bool:
            (pending,) = self.conn.execute("select gapless.pending()").fetchone() or (True,)
            return not pending and not self.left(group)

        until(empty, "nothing left", timeout_s=timeout_s, within=self.state)

    def left(self, group: str) -> int:
        """Return the number of events that are open, in hand, or waiting."""
        row = self.conn.execute(
            "select sum(s.open + s.in_hand + s.waiting + s.lapsed) from gapless.queue_state(%s) s",
            [group],
        ).fetchone()
        return int(row[0] or 0) if row else 0

    def lag(self, group: str) -> int:
        """Return the number of events at or above the floor."""
        row = self.conn.execute(
            "select sum(s.end_offset - s.next_offset) from gapless.queue_state(%s) s", [group]
        ).fetchone()
        return int(row[0] or 0) if row else 0

    def dead(self, group: str) -> dict[int, str]:
        """Return the reasons of the dead letters of a group, by the event's number."""
        rows = self.conn.execute(
            "select (e.payload ->> 'n')::int, d.reason from gapless.dead_letter d"
            " join gapless.dead_letter_event e using (group_id, topic_id, partition_id, first_offset)"
            " where d.group_id = %s and d.state = 'dead'",
            [group],
        ).fetchall()
        return dict(rows)

    def state(self) -> str:
        """Return facts that help people when something is missing."""
        found = [
            str(row)
            for group in ("once", "outside", "preferred")
            for row in self._rows("select * from gapless.queue_state(%s)", group)
        ]
        found += map(str, self._rows("select * from gapless.dead_letter"))
        return "\n".join([*found, self.logs()])

    def _rows(self, statement: str, *params: object) -> list[Any]:
        with suppress(Exception):
            return self.conn.execute(statement, params).fetchall()
        return []

    def workers(self, run: subprocess.Popen[bytes]) -> list[int]:
        """Return the pids of the queue workers of a supervisor."""
        found = []
        with suppress(OSError):
            listed = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text()
            for pid in listed.split():
                with suppress(OSError):
                    title = Path(f"/proc/{pid}/cmdline").read_bytes()
                    if b"queue worker" in title:
                        found.append(int(pid))
        return found

    def until_workers(self, run: subprocess.Popen[bytes], count: int) -> list[int]:
        """Wait until a supervisor has `count` queue workers; return their pids."""
        until(lambda: len(self.workers(run)) == count, f"{count} workers", within=self.logs)
        return self.workers(run)

    def until_hangs(self, number: int) -> int:
        """Wait until a worker hangs in an event; return its pid."""
        path = self.folder / str(number)
        until(lambda: path.exists() and path.read_text(), f"{number} hangs", within=self.state)
        return int(path.read_text())

    def stop(self, run: subprocess.Popen[bytes], timeout_s: float = PATIENCE_S) -> int:
        """Ask a supervisor to drain; return its exit code."""
        run.send_signal(signal.SIGTERM)
        return run.wait(bounded_patience(timeout_s))

    def logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')}"
            for path in sorted(self.folder.glob("run-*.log"))
        )

    def close(self) -> None:
        for each in self.running:
            with suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait(PATIENCE_S)


@pytest.fixture
def runs(dsn: str, conn: Connection[Any], tmp_path: Path) -> Iterator[Runs]:
    made = Runs(dsn, conn, tmp_path)
    try:
        yield made
    finally:
        made.close()
        print(made.logs())  # noqa: T201 - pytest shows it if the test failed
