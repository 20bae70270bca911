"""Supervisors as real processes, their events and their ends: the tests of this folder drive them.

Every wait here is for a condition, and bounded. Every started process is killed at the end.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo

from support.ledger import MAKE
from support.patience import bounded_patience

T = TypeVar("T")
QUICK = {
    "total_partitions": 4,
    "create_topics": True,
    "member_ttl_ms": 1500,
    "heartbeat_ms": 300,
    "suspect_grace_ms": 500,
    "connect_timeout_s": 5,
}
LOOK_AGAIN_S = 0.01
MARK = "GAPLESS_TEST_FLEET"  # in the environment of processes that a fleet started
PATIENCE_S = 20.0
_HANDLED = """
select coalesce(sum(c.next_offset), 0) = (
  select coalesce(sum(coalesce(n.last, 0) + 1), 0) from gapless.consumer_offsets k
  left join (
    select topic_id, partition_id, max(last_offset) as last from gapless.log_segment group by 1, 2
  ) n using (topic_id, partition_id)
) and not gapless.pending()
from gapless.consumer_offsets c
"""
_OPEN = """
select count(*) from gapless.dead_letter where state in ('waiting', 'parked')
"""
_OWNERS = """
select coalesce(m.name, '?'), count(*) from gapless.lease l
left join gapless.member m on m.member_id = l.owner
where l.owner is not null group by 1
"""


def until(
    look: Callable[[], T],
    what: str,
    *,
    timeout_s: float = PATIENCE_S,
    within: Callable[[], object] = str,
) -> T:
    """Return the first true value of look(); fail after timeout_s, later on a busy machine."""
    began = time.monotonic()
    while not (found := look()):
        if time.monotonic() - began > bounded_patience(timeout_s):
            pytest.fail(f"not within {timeout_s} s: {what}\n{within()}")
        time.sleep(LOOK_AGAIN_S)
    return found


class Instance:
    """A supervisor process, in a session and process group of its own with its children."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log_path: Path) -> None:
        self.name = name
        self.process = process
        self.log_path = log_path

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def logged(self, text: str) -> bool:
        return text in self.log()

    def deaths(self, how: str = "") -> int:
        """Return the number of workers that ended unasked so far; `how`: the log's word for it."""
        return len(re.findall(rf" worker \S+ ended: {how}", self.log()))

    def children(self) -> set[int]:
        if self.process.poll() is not None:
            return set()
        with suppress(OSError):
            listed = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
            return {int(pid) for pid in listed.split()}
        return set()

    def worker(self, partition: str) -> int | None:
        """Return the pid of the living process that acquired a partition (group/topic/number)."""
        found = re.findall(rf" (\d+) INFO {re.escape(partition)}: acquired", self.log())
        return int(found[-1]) if found and int(found[-1]) in self.children() else None

    def sequencer(self) -> int | None:
        """Return the pid of its sequencer, if that is the active one."""
        found = re.findall(r" (\d+) INFO sequencer: active", self.log())
        return int(found[-1]) if found and int(found[-1]) in self.children() else None

    def signal(self, number: signal.Signals) -> None:
        """Signal the supervisor alone."""
        self.process.send_signal(number)

    def signal_all(self, number: signal.Signals) -> None:
        """Signal the supervisor and all its children, as a terminal or a dying machine does."""
        assert self.process.poll() is None, "ended: its pid may be somebody else's by now"
        os.killpg(self.pid, number)

    def ended(self, timeout_s: float = PATIENCE_S) -> int:
        """Wait for the supervisor's end; return its exit code."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {timeout_s} s:\n{self.log()}") from None


class Fleet:
    """All supervisors on one test database."""

    def __init__(self, dsn: str, conn: Connection, folder: Path) -> None:
        self.dsn = dsn
        self.conn = conn
        self.folder = folder
        self.instances: list[Instance] = []
        self._mark = uuid4().hex
        self._keys: dict[int, list[str]] = {}
        conn.execute(MAKE)

    def start(
        self,
        name: str,
        *,
        groups: Iterable[tuple[str, str]] = (("g", "t"),),
        dsn: str | None = None,
        patch: dict[str, object] | None = None,
        odd: dict[str, float] | None = None,
        **settings: object,
    ) -> Instance:
        """Start a supervisor for (group, topic) pairs with QUICK settings and those given.

        A setting that is None is left out.

        odd: open_files it has, refused_forks at first, pause_after_fork_s in its children,
        clock_ahead_s of its machine.
        """
        wanted = {
            "settings": {**QUICK, "instance_name": name, **settings},
            "groups": list(groups),
            "patch": patch or {},
            "odd": {
                "open_files": 0,
                "refused_forks": 0,
                "pause_after_fork_s": 0,
                "clock_ahead_s": 0,
                **(odd or {}),
            },
        }
        log_path = self.folder / f"{name}.log"
        with log_path.open("ab") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    str(Path(__file__).with_name("programs") / "instance.py"),
                    dsn or self.dsn,
                    json.dumps(wanted),
                ],
                env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
                | {MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.instances.append(Instance(name, process, log_path))
        return self.instances[-1]

    # -- the present state ------------------------------------------------------------------------

    def owners(self) -> dict[str, int]:
        """Return the number of partitions that each instance owns."""
        return dict(self.conn.execute(_OWNERS).fetchall())

    def until_owners(self, timeout_s: float = PATIENCE_S, **counts: int) -> None:
        until(
            lambda: self.owners() == counts,
            f"owners {counts}",
            timeout_s=timeout_s,
            within=self.state,
        )

    def until_handled(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until no group has events left to handle, and no event waits for its offset."""
        until(lambda: self.value(_HANDLED), "all handled", timeout_s=timeout_s, within=self.state)

    def until_settled(self, timeout_s: float = PATIENCE_S) -> None:
        """Wait until all events are handled, and no unit waits or is parked any more."""
        self.until_handled(timeout_s)
        until(
            lambda: not self.value(_OPEN),
            "nothing waits",
            timeout_s=timeout_s,
            within=lambda: self.conn.execute("select * from gapless.dead_letter").fetchall(),
        )

    def states(self) -> dict[tuple[int, int], str]:
        """Return units set aside: (partition, first offset) to state."""
        rows = self.conn.execute(
            "select partition_id, first_offset, state from gapless.dead_letter order by 1, 2"
        ).fetchall()
        return {(partition, offset): state for partition, offset, state in rows}

    def redrive(self, partition: int, offset: int, conn: Connection | None = None) -> str:
        row = (
            (conn or self.conn)
            .execute("select gapless.redrive_letter('g', 't', %s, %s, 'ann')", [partition, offset])
            .fetchone()
        )
        return "" if row is None else str(row[0])

    def value(self, statement: str, *params: object) -> Any:
        row = self.conn.execute(statement, params).fetchone()
        return None if row is None else row[0]

    def now(self) -> float:
        """Return the server's clock in seconds."""
        return float(self.value("select extract(epoch from clock_timestamp())"))

    def state(self) -> str:
        """Return the present and the planned owners, for people."""
        leases = self.conn.execute(
            "select l.group_id, l.partition_id, t.name as target, o.name as owner, epoch, error"
            " from gapless.lease l left join gapless.member t on t.member_id = l.target"
            " left join gapless.member o on o.member_id = l.owner order by 1, 2"
        ).fetchall()
        return "\n".join(map(str, leases))

    def logs(self) -> str:
        return "\n".join(f"--- {each.name}\n{each.log()}" for each in self.instances)

    # -- actions ----------------------------------------------------------------------------------

    def keys(self, partitions: int) -> list[str]:
        """Return a key for each of a topic's partitions, in their order."""
        if partitions not in self._keys:
            found: dict[int, str] = {}
            number = 0
            while len(found) < partitions:
                row = self.value("select gapless.partition_of(%s, %s)", f"k{number}", partitions)
                found.setdefault(int(row), f"k{number}")
                number += 1
            self._keys[partitions] = [found[p] for p in range(partitions)]
        return self._keys[partitions]

    def publish(
        self,
        *payloads: dict[str, object],
        topic: str = "t",
        partition: int = 0,
        partitions: int = 4,
        conn: Connection | None = None,
    ) -> None:
        """Publish events to one partition, each in a transaction of its own."""
        key = self.keys(partitions)[partition]
        for payload in payloads or ({},):
            (conn or self.conn).execute(
                "select gapless.publish(%s, %s::json, %s)", [topic, json.dumps(payload), key]
            )

    def terminate(self, whose: str) -> int:
        """End this database's sessions whose application_name is LIKE that; return how many."""
        return int(
            self.value(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity"
                " where datname = current_database() and application_name like %s"
                " and pid <> pg_backend_pid()",
                whose,
            )
        )

    def close_door(self) -> None:
        """Refuse new sessions; existing ones may stay."""
        self._let_in(allowed=False)

    def open_door(self) -> None:
        self._let_in(allowed=True)

    def _let_in(self, *, allowed: bool) -> None:
        with psycopg.connect(make_conninfo(self.dsn, dbname="postgres"), autocommit=True) as admin:
            admin.execute(
                sql.SQL("alter database {} allow_connections {}").format(
                    sql.Identifier(self.conn.info.dbname), sql.Literal(allowed)
                )
            )

    def close(self) -> None:
        """Kill the other processes, by their mark: an ended one may have lost its pid to another."""
        mark = f"{MARK}={self._mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)
        for each in self.instances:
            each.process.wait(PATIENCE_S)


class Load:
    """Publishes to all partitions all the time, from a thread, until stopped; survives restarts."""

    def __init__(self, fleet: Fleet, *, every_s: float = 0.005, partitions: int = 4) -> None:
        self._fleet = fleet
        self._every_s = every_s
        self._keys = fleet.keys(partitions)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.published = 0

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def go_on(self, rounds: int = 20) -> None:
        """Return after this many more rounds of events."""
        goal = self.published + rounds * len(self._keys)
        until(lambda: self.published >= goal, "more events published")

    def _run(self) -> None:
        while not self._stop.is_set():
            with suppress(psycopg.OperationalError), self._connect() as conn:
                while not self._stop.wait(self._every_s):
                    conn.execute(
                        "select gapless.publish('t', '{}'::json, k) from unnest(%s::text[]) k",
                        [self._keys],
                    )
                    self.published += len(self._keys)

    def _connect(self) -> Connection:
        self._stop.wait(self._every_s)
        return psycopg.connect(self._fleet.dsn, autocommit=True)
