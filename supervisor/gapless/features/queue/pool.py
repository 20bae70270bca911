"""The workers of queue groups: the supervisor's books. They are all alike, and have no lease."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Protocol
from uuid import uuid4

from psycopg import Connection

from gapless.consume.terms import Terms
from gapless.consume.user.handler import Handler
from gapless.db.queries import query
from gapless.features.queue.worker import run_queue_worker
from gapless.settings import Settings
from gapless.telemetry import meter
from gapless.telemetry.meter import Meters
from gapless.worker.board import Board
from gapless.worker.child import Child
from gapless.worker.spec import ExitCode, Pipe, QueueSpec

log = logging.getLogger("gapless.supervisor")

DEATH_LOOK_S = 0.02  # the server may need a moment to see that a session is gone
DEATH_AGAIN_S = 1.0
DEATH_PATIENCE_S = 30.0

Run = Callable[[Pipe, int, tuple[int, ...]], None]


class Purpose(Hashable, Protocol):
    """What a child is forked for: a partition, or a queue."""

    @property
    def group_id(self) -> str: ...
    @property
    def topic(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ServedQueue:
    """What all workers of one handler serve; topic: all of its topics, with commas."""

    group_id: str
    topic: str

    def __str__(self) -> str:
        return f"queue worker {self.group_id}/{self.topic}"


class Forks(Protocol):
    """What forks and reaps: Children."""

    def fork(self, who: Purpose | None, name: str, run: Run) -> Child | None: ...
    def reap(self, child: Child, work_ms_max: float) -> int | None: ...
    def failed(self, who: Purpose, child: Child) -> None: ...


@dataclass(slots=True)
class Death:
    """A worker of a queue that died; lease_no 0: on nothing that its transaction held.

    timeline: of the server that these were given by; one that was promoted since gives them anew.
    since_s, due_s: time.monotonic(), of the death and of the next look.
    """

    worker: str
    timeline: int
    lease_no: int
    first_offset: int
    last_offset: int
    since_s: float = field(default_factory=monotonic)
    due_s: float = 0.0

    def note(self, conn: Connection[Any]) -> bool:
        """Tell the database; False: not all that it had is free yet, and this is to be repeated.

        What it asked the server for as it died may be done after the first look: there are two.
        """
        if monotonic() < self.due_s:
            return False
        params = {"worker": self.worker}
        freed = conn.execute(query("queue", "end_holder"), params).fetchone()
        if self.lease_no:
            held = {
                "timeline": self.timeline,
                "lease_no": self.lease_no,
                "first_offset": self.first_offset,
                "last_offset": self.last_offset,
            }
            answer = conn.execute(query("queue", "note_death"), params | held).fetchone()
            self.lease_no = self.lease_no if answer == ("busy",) else 0
        is_last = self.due_s > 0
        if monotonic() > self.since_s + DEATH_PATIENCE_S:
            return True
        if self.lease_no or freed == (None,):
            return False
        self.due_s = self.since_s + DEATH_AGAIN_S
        return is_last


@dataclass(slots=True)
class _Pool:
    """The workers of one handler, by what they are called."""

    queue: ServedQueue
    handler: Handler
    terms: Terms
    workers: dict[str, Child] = field(default_factory=dict)


class Pools:
    """All workers of queue groups."""

    def __init__(
        self, forks: Forks, shared: tuple[Board, Meters], dsn: str, settings: Settings, pid: int
    ) -> None:
        self._forks = forks
        self._board, self._meters = shared
        self._dsn = dsn
        self._settings = settings
        self._supervisor_pid = pid
        self._pools: dict[ServedQueue, _Pool] = {}
        self.deaths: list[Death] = []

    @property
    def children(self) -> Iterator[Child]:
        """All of them."""
        for pool in self._pools.values():
            yield from pool.workers.values()

    def keep(self, queues: Iterable[tuple[str, Handler, Terms]]) -> None:
        """Fork what is missing, as far as backoffs allow."""
        for group_id, handler, terms in queues:
            queue = ServedQueue(group_id, ",".join(terms.topics))
            pool = self._pools.setdefault(queue, _Pool(queue, handler, terms))
            while len(pool.workers) < terms.workers and self._start(pool):
                pass

    def watch(self) -> None:
        """Reap those that ended, and end those that are stuck; note at what they died."""
        for pool in self._pools.values():
            for worker, child in list(pool.workers.items()):
                code = self._forks.reap(child, self._settings.max_processing_ms)
                if code is not None:
                    del pool.workers[worker]
                    self._note_end(pool, worker, child, code)

    def note_deaths(self, conn: Connection[Any]) -> None:
        """Tell the database of what is known of; what it cannot say yet is told again."""
        self.deaths = [death for death in self.deaths if not death.note(conn)]

    def _start(self, pool: _Pool) -> bool:
        worker = f"{self._settings.name_for_people()} {uuid4().hex[:12]}"
        spec = partial(
            QueueSpec,
            dsn=self._dsn,
            supervisor_pid=self._supervisor_pid,
            settings=self._settings,
            group_id=pool.queue.group_id,
            worker=worker,
            handler=pool.handler,
            terms=pool.terms,
        )
        board, meters = self._board, self._meters

        def run(pipe: Pipe, slot: int, close_fds: tuple[int, ...]) -> None:
            meter.use(meters.meter(slot))
            run_queue_worker(spec(slot=slot, close_fds=close_fds), pipe, board)

        child = self._forks.fork(pool.queue, str(pool.queue), run)
        if child is None:
            return False
        pool.workers[worker] = child
        return True

    def _note_end(self, pool: _Pool, worker: str, child: Child, code: int) -> None:
        if code == ExitCode.DRAINED and child.draining:
            return
        log.warning("%s ended: %s", pool.queue, child.explain(code))
        self._forks.failed(pool.queue, child)
        self.deaths.append(Death(worker, *self._board.held(child.slot)))
