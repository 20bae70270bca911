"""The supervisor's record of the workers of queue groups. They are all alike, and have no lease."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf
from time import monotonic
from typing import Any
from uuid import uuid4

from psycopg import Connection

from gapless.consume.terms import Terms
from gapless.consume.user.handler import Handler
from gapless.db.queries import query
from gapless.features.queue.worker import QueueSpec, run_queue_worker
from gapless.worker.child import Child
from gapless.worker.plan import Plan
from gapless.worker.spec import ExitCode
from gapless.worker.unleased import Forks

log = logging.getLogger("gapless.supervisor")

DEATH_LOOK_S = 0.02  # the server may need a moment to see that a session is gone
DEATH_AGAIN_S = 1.0
DEATH_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class ServedQueue:
    """The queue that all workers of one handler serve; topic: all of its topics, with commas."""

    group_id: str
    topic: str

    def __str__(self) -> str:
        return f"queue worker {self.group_id}/{self.topic}"


@dataclass(slots=True)
class Death:
    """The death of a worker of a queue; lease_no 0: its transaction held no events.

    timeline: of the server that gave these offsets; a promoted server gives them anew.
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
        """Tell the database; False: repeat this, for not all events of the worker are free yet.

        There are two looks: the last requests of the worker may be done after the first one.
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
    """The workers of one handler, by name."""

    queue: ServedQueue
    handler: Handler
    terms: Terms
    workers: dict[str, Child] = field(default_factory=dict)


class Pools:
    """All workers of queue groups (worker.unleased.Unleased)."""

    def __init__(self, forks: Forks, plan: Plan) -> None:
        self._forks = forks
        self._plan = plan
        self._pools: dict[ServedQueue, _Pool] = {}
        self.deaths: list[Death] = []

    @property
    def children(self) -> Iterator[Child]:
        """The children of all pools."""
        for pool in self._pools.values():
            yield from pool.workers.values()

    @property
    def due_s(self) -> float:
        """The time (time.monotonic) of the next report of deaths."""
        return monotonic() + DEATH_LOOK_S if self.deaths else inf

    def keep(self) -> None:
        """Fork missing workers, as far as backoffs allow."""
        for group_id, handler, terms in self._plan.unleased:
            queue = ServedQueue(group_id, ",".join(terms.topics))
            pool = self._pools.setdefault(queue, _Pool(queue, handler, terms))
            while len(pool.workers) < terms.workers and self._start(pool):
                pass

    def watch(self) -> None:
        """Reap workers that ended, and end stuck ones; note the events at which they died."""
        for pool in self._pools.values():
            for worker, child in list(pool.workers.items()):
                code = self._forks.reap(child, self._plan.settings.max_processing_ms)
                if code is not None:
                    del pool.workers[worker]
                    self._note_end(pool, worker, child, code)

    def tell(self, conn: Connection[Any]) -> None:
        """Tell the database of deaths; repeat those that it cannot note yet."""
        self.deaths = [death for death in self.deaths if not death.note(conn)]

    def _start(self, pool: _Pool) -> bool:
        settings = self._plan.settings
        worker = f"{settings.name_for_people()} {uuid4().hex[:12]}"
        spec = partial(
            QueueSpec,
            group_id=pool.queue.group_id,
            worker=worker,
            handler=pool.handler,
            terms=pool.terms,
        )
        child = self._forks.fork(pool.queue, str(pool.queue), spec, run_queue_worker)
        if child is None:
            return False
        pool.workers[worker] = child
        return True

    def _note_end(self, pool: _Pool, worker: str, child: Child, code: int) -> None:
        if code == ExitCode.DRAINED and child.draining:
            return
        log.warning("%s ended: %s", pool.queue, child.explain(code))
        self._forks.failed(pool.queue, child)
        self.deaths.append(Death(worker, *self._forks.board.held(child.slot)))
