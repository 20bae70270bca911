"""An installation of gapless in a schema of its own: commands and supervisors as real processes."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from psycopg import Connection

from gapless.db.schema import in_schema
from support.fleet import until
from support.patience import bounded_patience

APP = Path(__file__).with_name("app.py")
PATIENCE_S = 40.0
TOPICS = ("orders", "mails", "stock.changes", "pulses")
QUICK = {
    "GAPLESS_MEMBERTTLMS": "1500",
    "GAPLESS_HEARTBEATMS": "300",
    "GAPLESS_SUSPECTGRACEMS": "500",
    "PYTHONPATH": os.pathsep.join([str(APP.parents[1]), *filter(None, sys.path)]),
}


class Installation:
    """One of those in a database; its SQL is written with `gapless.`, as the source is."""

    def __init__(self, dsn: str, conn: Connection[Any], schema: str, folder: Path) -> None:
        self.dsn = dsn
        self.conn = conn
        self.schema = schema
        self.folder = folder
        self.running: list[subprocess.Popen[bytes]] = []
        self._environ = {
            **{name: value for name, value in os.environ.items() if name != "GAPLESS_SCHEMA"},
            **QUICK,
        }

    def run(self, *words: str) -> str:
        """Run a command to its end, which has to be a good one; return what it printed."""
        return self.tried(*words, code=0).stdout

    def tried(self, *words: str, code: int) -> subprocess.CompletedProcess[str]:
        """Run a command that ends with this exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "gapless", *words, "--dsn", self.dsn, "--schema", self.schema],
            env=self._environ,
            check=False,
            capture_output=True,
            text=True,
            timeout=bounded_patience(120.0),
        )
        assert done.returncode == code, done
        return done

    def install(self, partitions: int = 2) -> None:
        """Install it, with all topics."""
        self.run("init")
        for topic in TOPICS:
            self.sql("select gapless.create_topic(%s, partitions => %s)", topic, partitions)

    def start(self, *handlers: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start a supervisor of these handlers of app.py."""
        words = [f"{APP}:{name}" for name in handlers]
        with (self.folder / f"{self.schema}-{len(self.running)}.log").open("wb") as log:
            made = subprocess.Popen(
                [
                    *(sys.executable, "-m", "gapless", "run", *words),
                    *("--dsn", self.dsn, "--schema", self.schema, "--workers", "1"),
                ],
                env={**self._environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.running.append(made)
        return made

    def sql(self, statement: str, *params: object) -> list[tuple[Any, ...]]:
        """Run a statement, in autocommit; return its rows, if it has any."""
        found = self.conn.execute(in_schema(statement, self.schema), params)
        return found.fetchall() if found.description else []

    def value(self, statement: str, *params: object) -> Any:
        """Return the first value of what a statement returns."""
        return self.sql(statement, *params)[0][0]

    def publish(self, payload: object, key: str = "k", topic: str = "orders") -> None:
        """Publish an event."""
        self.sql("select gapless.publish(%s, %s::json, %s)", topic, json.dumps(payload), key)

    def did(self, handler: str) -> list[Any]:
        """The payloads that a handler of this installation wrote down, in the order of the log."""
        rows = self.conn.execute(
            "select payload from did where installation = %s and handler = %s"
            " order by partition_id, c_offset",
            [self.schema, handler],
        )
        return [payload for (payload,) in rows]

    def until(self, happened: Any, what: str) -> None:
        """Wait for something; what the supervisors said stands in the failure."""
        until(happened, what, timeout_s=PATIENCE_S, within=self.logs)

    def until_owned(self) -> None:
        """Wait until somebody works on each partition of the group billing."""
        owned = "select bool_and(owner is not null) from gapless.lease where group_id = 'billing'"
        self.until(lambda: self.value(owned), "all are owned")

    def until_did(self, handler: str, count: int) -> None:
        """Wait until a handler has written down so many events."""
        self.until(lambda: len(self.did(handler)) >= count, f"{count} by {handler}")

    def logs(self) -> str:
        """What all its supervisors said."""
        files = sorted(self.folder.glob(f"{self.schema}-*.log"))
        return "\n".join(each.read_text(errors="replace") for each in files)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a supervisor and all its children at once, as a machine that dies does."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def drain(self) -> None:
        """Let all supervisors finish, and end."""
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.running:
            process.wait(bounded_patience(PATIENCE_S))

    def close(self) -> None:
        """Kill what is left."""
        for process in self.running:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
