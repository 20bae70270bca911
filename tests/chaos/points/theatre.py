"""A database, two supervisors on it, producers, and a driver that sets traps for them.

Every wait is for a condition, is bounded, and meanwhile tends to what has to go on: producers that
were killed try their orders again, an instance that was stopped goes on once others have taken over.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from chaos.checker import Violation, check
from chaos.effects import make_tables
from chaos.history import Fault, Note, Writer
from chaos.points import traps
from chaos.points.traps import Action
from chaos.producer import Draft
from gapless.db.connect import connect
from gapless.log.topics import ensure_topic
from support.patience import patience

PARTITIONS = 4
INSTANCES = 2
PATIENCE_S = 20.0  # on a quiet machine
PATIENCE_S_MAX = 90.0
LOOK_AGAIN_S = 0.01
SETTINGS: dict[str, object] = {
    "total_partitions": PARTITIONS,
    "batch_size": 8,
    "member_ttl_ms": 1200,
    "heartbeat_ms": 150,
    "suspect_grace_ms": 200,
    "reconnect_grace_ms": 200,
    "presence_poll_ms": 50,
    "zombie_after_ms": 100,
    "wait_period_ms": 200,
    "connect_timeout_s": 5,
}
_HANDLED = """
select not gapless.pending() and not exists (
  select from gapless.dead_letter d where d.state in ('waiting', 'parked')
) and not exists (
  select from gapless.consumer_offsets c
  left join (
    select topic_id, partition_id, max(last_offset) as last from gapless.log_segment group by 1, 2
  ) n using (topic_id, partition_id)
  where c.next_offset <= n.last
)
"""
_AT_REST = """
select not exists (
  select from gapless.lease l left join gapless.member m on m.member_id = l.owner
  where m.member_id is null or l.owner is distinct from l.target
) and (select count(*) from gapless.member where state = 'active') = %(instances)s
-- One that has only just joined is a member before partitions are planned for it.
and (select count(distinct target) from gapless.lease) = %(instances)s
"""
_KEYS = """
select min('k' || n) from generate_series(1, 200) n
group by gapless.partition_of('k' || n, %s) order by gapless.partition_of('k' || n, %s)
"""
Order = tuple[str, list[Draft]]


class StuckError(AssertionError):
    """A wait was in vain."""


class Theatre:
    """One stage; use it from one thread, as a context manager."""

    def __init__(self, server_dsn: str, template: str, folder: Path, mutant: str = "") -> None:
        self._server_dsn = server_dsn
        self._name = f"gapless_test_{uuid4().hex[:12]}"
        self._template = template
        self.folder = folder
        self.mutant = mutant
        self.dsn = make_conninfo(server_dsn, dbname=self._name)
        self._numbers = count(1)
        self._producers: dict[int, dict[str, Any]] = {}
        self._stalled: int | None = None
        self._has_sprung = False
        self.instances: dict[int, str] = {}
        self.patience_s = PATIENCE_S
        self._zygote: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Theatre:
        for each in ("", "traps", "ends", "logs"):
            (self.folder / each).mkdir(exist_ok=True, parents=True)
        self._admin("create database {} template {}", self._name, self._template)
        self.conn = connect(self.dsn, role="test")
        make_tables(self.conn)
        ensure_topic(self.conn, "t", partitions=PARTITIONS)
        self.keys = [
            k
            for (k,) in self.conn.execute(_KEYS.replace("%s", str(PARTITIONS)).encode()).fetchall()
        ]
        self.writer = Writer(self.folder, "driver")
        return self

    def __exit__(self, *_: object) -> None:
        self.resume()
        for pid in self.instances:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        if self._zygote is not None:
            self._zygote.communicate()
        self.conn.close()
        self._admin("drop database {} with (force)", self._name)

    # -- who acts ---------------------------------------------------------------------------------

    def fork(self, kind: str, **wanted: object) -> int:
        """Start a process that lives until it ends, or this theatre does."""
        if self._zygote is None:
            program = str(Path(__file__).with_name("zygote.py"))
            self._zygote = subprocess.Popen(
                [sys.executable, program, self.dsn, str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        line = json.dumps({"kind": kind, "mutant": self.mutant, **wanted})
        self._zygote.stdin.write(line.encode() + b"\n")
        self._zygote.stdin.flush()
        return int(self._zygote.stdout.readline())

    def start(self) -> int:
        """Start a supervisor; return its pid, which is its process group's, too."""
        name = f"i{next(self._numbers)}"
        pid = self.fork("supervisor", name=name, settings=SETTINGS)
        self.instances[pid] = name
        return pid

    def publish(self, *orders: Order) -> None:
        """Have a new producer process publish orders; one that dies is followed by another."""
        wanted = {
            "name": f"p{next(self._numbers)}",
            "orders": [(key, [asdict(draft) for draft in drafts]) for key, drafts in orders],
        }
        self._producers[self.fork("producer", **wanted)] = wanted

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let nobody handle anything until all that is published meanwhile is sequenced."""
        self.value("select gapless.pause('g')")
        yield
        self.until(
            lambda: not self._producers and not self.value("select gapless.pending()"),
            "all is published, and sequenced",
        )
        self.value("select gapless.resume('g')")

    def orders(self, number: int, poison: Sequence[int] = (), **payload: object) -> list[Order]:
        """Make orders, over one partition or over all of them in turn; some are poison."""
        made = []
        for n in range(number):
            keys = self.keys if n % 3 == 0 else [self.keys[n % PARTITIONS]] * 3
            items = tuple(payload.items()) if n == number - 1 else ()
            drafts = [Draft(key=key, poison=n in poison, payload=items) for key in keys]
            made.append((f"order {next(self._numbers)}", drafts))
        return made

    # -- what is so -------------------------------------------------------------------------------

    def value(self, statement: str, *params: object) -> Any:
        row = self.conn.execute(statement.encode(), params).fetchone()
        return None if row is None else row[0]

    def until(self, happened: Callable[[], object], what: str) -> None:
        """Wait, and tend to what goes on meanwhile."""
        limit_s = min(patience(self.patience_s), PATIENCE_S_MAX)
        give_up = time.monotonic() + limit_s
        while not happened():
            if time.monotonic() > give_up:
                raise StuckError(f"not within {limit_s:.0f} s: {what}\n{self.state()}")
            self.tend()
            time.sleep(LOOK_AGAIN_S)

    def is_handled(self) -> bool:
        return bool(self.value(_HANDLED))

    def is_at_rest(self) -> bool:
        """Whether nothing is left to do, and every partition is where it is planned to be."""
        return (
            not self._producers
            and self._stalled is None
            and self.is_handled()
            and self.value(_AT_REST.replace("%(instances)s", str(INSTANCES)))
        )

    def check(self) -> list[Violation]:
        return check(self.conn, self.folder)

    def state(self) -> str:
        leases = self.conn.execute(
            "select l.partition_id, t.name as target, o.name as owner, l.epoch, l.error,"
            " c.next_offset, c.epoch, c.attempts from gapless.lease l"
            " join gapless.consumer_offsets c using (group_id, topic_id, partition_id)"
            " left join gapless.member t on t.member_id = l.target"
            " left join gapless.member o on o.member_id = l.owner order by 1"
        ).fetchall()
        tails = [
            f"--- {path.name}\n" + "\n".join(path.read_text().splitlines()[-12:])
            for path in sorted((self.folder / "logs").iterdir(), key=lambda p: p.stat().st_mtime)
        ]
        busy = f"producers {list(self._producers)}, stalled {self._stalled}"
        return "\n".join([busy, *map(str, leases), *tails[-6:]])

    # -- what happens -----------------------------------------------------------------------------

    def trap(self, point: str, action: Action) -> None:
        """Lay a trap; until() sees to what follows."""
        self._has_sprung = False
        self.writer.write(Note(what=f"trap {point}", detail=action))
        traps.lay(self.folder / "traps", point, action)

    def sprung(self, point: str, action: Action) -> bool:
        """Whether a process fell into it. One that stalls is stopped, and others take over first.

        MUST be called until it is true, also when all is at rest: else nobody lets it go on.
        """
        pid = traps.sprung(self.folder / "traps", point)
        if self._has_sprung or pid is None:
            return self._has_sprung
        if action == "stall":
            if not _has_stopped(pid):
                return False  # a SIGCONT must not come before its SIGSTOP
            self._stalled = os.getpgid(pid) if _lives(pid) else None
            self.publish(*self.orders(1))
        self._has_sprung = True
        self.writer.write(Fault(kind=action, target=f"{point} in {pid}"))
        return True

    def tend(self) -> None:
        for pid, wanted in list(self._producers.items()):
            ended = self._end(pid)
            if ended is None:
                continue
            del self._producers[pid]
            if ended != 0:
                self._producers[self.fork("producer", **wanted)] = wanted
        for pid in list(self.instances):
            if self._end(pid) is not None:
                del self.instances[pid]
        others = [pid for pid in self._producers if pid != self._stalled]
        if self._stalled is not None and not others and self.is_handled():
            self.resume()

    def resume(self) -> None:
        if self._stalled is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._stalled, signal.SIGCONT)
        self._stalled = None

    def rest(self) -> None:
        """Let everything come to rest with as many supervisors as there should be."""

        def rested() -> bool:
            while len(self.instances) < INSTANCES:
                self.start()
            return self.is_at_rest()

        self.until(rested, "all handled, and balanced")
        traps.clear(self.folder / "traps")

    def sequencing(self) -> int:
        """Return the supervisor whose sequencer is active."""
        self.until(lambda: self._logged("sequencer: active"), "a sequencer is active")
        return max(self._logged("sequencer: active"))[1]

    def workers(self) -> list[int]:
        """Return the processes that acquired a partition and live, the newest last."""
        return [child for _, _, child in sorted(self._logged(r"g/t/\d+: acquired"))]

    def _logged(self, text: str) -> list[tuple[str, int, int]]:
        """Return (when, supervisor, child) for what living children have logged."""
        return [
            (at, pid, int(child))
            for pid, name in self.instances.items()
            for at, child in re.findall(rf"^(.*?) (\d+) INFO {text}", self._log(name), re.MULTILINE)
            if _lives(int(child))
        ]

    def _log(self, name: str) -> str:
        path = self.folder / "logs" / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def leave(self, pid: int) -> None:
        """Ask a supervisor to drain."""
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)

    def _end(self, pid: int) -> int | None:
        with suppress(FileNotFoundError):
            return int((self.folder / "ends" / str(pid)).read_text())
        return None

    def _admin(self, statement: str, *names: str) -> None:
        with psycopg.connect(self._server_dsn, autocommit=True) as admin:
            admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _has_stopped(pid: int) -> bool:
    """Tell whether a process is stopped, or has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "TZX"
