"""A worker of a queue: one session, no lease; it shares every partition of its topics with others.

It exits when it is told to, when its supervisor is gone, or without a session. Idle, it writes
nothing, and looks once every waitPeriodMs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic, time_ns

import psycopg

from gapless.consume.aside.record import failing_keys
from gapless.consume.job import Step
from gapless.consume.terms import Terms
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.patience import Patience
from gapless.db.connect import connect, is_revoked, is_transient
from gapless.db.hidden import hidden_rows, why_refused
from gapless.db.listen import Notifications, listen, readable
from gapless.db.wire import fetch_all
from gapless.errors import BlockedError, HoleError
from gapless.features.queue.drive import QueueDriver
from gapless.features.queue.place import channels_of, open_queue
from gapless.resources import open_all
from gapless.worker.board import Board
from gapless.worker.failure_backoff import BRAKE_UNITS, REST_LOOK_S, FailureBackoff
from gapless.worker.life import WAIT_S_MAX, is_orphan, live, settle
from gapless.worker.offspring import disown_offspring
from gapless.worker.retries import Retries
from gapless.worker.service import RETRY_S_MAX
from gapless.worker.session_loop import GUARD_MORE_MS, Opening, is_sound, session_loop
from gapless.worker.spec import ChildSpec, ExitCode, Pipe
from gapless.worker.wakeup import Wakeup

log = logging.getLogger("gapless.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec(ChildSpec):
    """The settings of a queue worker. worker: a name that no other process has."""

    group_id: str
    worker: str
    handler: Handler
    terms: Terms


def run_queue_worker(spec: QueueSpec, pipe: Pipe, board: Board) -> None:
    """Be a worker of a queue until told to stop, or without a connection; then exit the process."""
    name = f"queue worker {spec.group_id}"
    settle(spec, name)
    disown_offspring(spec.group_id, pipe.close)
    live(name, partial(_work, spec, pipe, board))


def _work(spec: QueueSpec, pipe: Pipe, board: Board) -> ExitCode:
    settings = spec.settings
    timeout_s = settings.connect_timeout_s
    role = f"queue worker {spec.group_id}"
    opening = Opening(
        connect=lambda: connect(spec.dsn, role=role, connect_timeout_s=timeout_s),
        max_processing_ms=settings.max_processing_ms,
        patience_s=timeout_s,
        statement_timeout_ms=settings.statement_timeout_ms,
    )
    conn = opening.open()
    spec.handler.habits.interruptible = False  # signals are the supervisor's
    open_all(spec.handler.resources)
    wakeup = Wakeup()
    ((timeline,),) = fetch_all(conn, "queue", "timeline")
    board.meet(spec.slot, timeline)
    queue = open_queue(
        conn,
        spec.handler,
        spec.terms,
        spec.group_id,
        worker=spec.worker,
        # Longer than a turn may take: a worker that is killed for its length gives it back.
        reserve_s=(settings.max_processing_ms + GUARD_MORE_MS) / 1000,
        holds=partial(board.hold, spec.slot),
        patience=Patience(),
    )
    driver = QueueDriver(queue, wait_period_s=settings.wait_period_ms / 1000, wake=wakeup.ring)
    for channel in channels_of(queue):
        listen(conn, channel)
    return session_loop(_Host(_Serving(spec, board, driver), pipe, wakeup), opening)


class _Serving:
    """The queue as a session serves it, turn by turn. due_s (time.monotonic): the next turn."""

    def __init__(self, spec: QueueSpec, board: Board, driver: QueueDriver) -> None:
        self.spec = spec
        self.board = board
        self.driver = driver
        self.due_s = monotonic()
        self.is_dropped = False
        self._retries = Retries(RETRY_S_MAX)
        self._brake = FailureBackoff(spec.terms.policy.brake_keys)
        self._braked_until_s = self._holds_until_s = 0.0
        self._name = f"queue worker {spec.group_id}"

    @property
    def has_trouble(self) -> bool:
        """Whether the next turn is put off on purpose: a notification does not hasten it."""
        return monotonic() < self._holds_until_s or self._brake.is_on

    def turn(self) -> ExitCode | None:
        """Take a turn; put the next one off while the environment does not let it succeed."""
        board, slot, driver, began_s = self.board, self.spec.slot, self.driver, monotonic()
        rests = began_s < self._braked_until_s and board.handled_s(slot) < self._brake.since_s
        if rests and not driver.going_on and not self.is_dropped:
            self.due_s = min(self._braked_until_s, began_s + REST_LOOK_S)
            return None
        self._holds_until_s = 0.0
        board.begin(slot, since_s=driver.oldest_s)
        try:
            done = driver.rest() if self.is_dropped or rests else driver.turn(one=self._brake.is_on)
        except HoleError as error:
            self._require_session(error)
            why = hidden_rows(self.driver.conn) or error
            log.error("%s: stopped: %s", self._name, why)  # noqa: TRY400 - one line for people
            self.due_s = monotonic()  # the other partitions are served
            return None
        except (psycopg.Error, BlockedError) as error:
            self._require_session(error)
            self._try_later(error)
            return None
        finally:
            self.rest()
        if done.is_settled or (done.outcome == "idle" and not driver.going_on):
            self._retries.succeeded()
        self._succeed(done, began_s)
        return None

    def rest(self) -> None:
        """Note that no turn is running; a call that hangs is work all the same (I8)."""
        oldest_s = self.driver.oldest_s
        if oldest_s is not None:
            self.board.begin(self.spec.slot, since_s=oldest_s)
        else:
            self.board.rest(self.spec.slot)

    def _succeed(self, done: Step, began_s: float) -> None:
        now, board, slot = monotonic(), self.board, self.spec.slot
        self.due_s = now + self.driver.wait_s(done)
        if done.handled:
            board.handle(slot)
        brake, was_on = self._brake, self._brake.is_on
        rest_s = brake.note(
            handled=done.handled,
            failed=done.failed - done.asked,
            turn_s=(began_s, now),
            handled_s=board.handled_s(slot),
            keys=partial(failing_keys, self.driver.conn, BRAKE_UNITS, self.spec.group_id),
        )
        if rest_s:
            self._braked_until_s = now + rest_s
            self.due_s = max(self.due_s, now + min(rest_s, REST_LOOK_S))
            why = brake.explain(rest_s)
            log.error("%s: %s", self._name, why)
            self._report(f"retrying: a worker of this queue {why}")
        elif was_on and not brake.is_on:
            self._braked_until_s = 0.0
            log.warning("%s: continues as before: not all fails any more", self._name)
            self._report(None)

    def _report(self, error: str | None) -> None:
        """Write into the group's leases why this worker rests; None: it no longer does."""
        params = {"group_id": self.spec.group_id, "topics": list(self.spec.terms.topics)}
        fetch_all(self.driver.conn, "queue", "report_queue_error", params | {"error": error})

    def _try_later(self, error: psycopg.Error | BlockedError) -> None:
        if isinstance(error, psycopg.Error) and not (is_transient(error) or is_revoked(error)):
            raise error
        wait_s = self._retries.failed()
        attempt = self._retries.failures
        if attempt in (1, 3, 10) or attempt % 30 == 0:
            log.warning("%s: will try again: %s", self._name, why_refused(self.driver.conn, error))
        self.due_s = self._holds_until_s = monotonic() + wait_s

    def _require_session(self, error: Exception) -> None:
        """Raise `error`, as one that ends the loop, if the session is not as it was."""
        if is_sound(self.driver.conn):
            return
        if isinstance(error, psycopg.OperationalError):
            raise error
        raise psycopg.OperationalError(str(error)) from error


class _Host:
    """Obeys the supervisor, and receives the notifications of the partitions."""

    def __init__(self, serving: _Serving, pipe: Pipe, wakeup: Wakeup) -> None:
        self._serving = serving
        self._spec = serving.spec
        self._pipe = pipe
        self._wakeup = wakeup
        self._conn = serving.driver.conn
        self._notifications = Notifications(self._conn)
        self._listens: set[str] = set()

    def over(self) -> ExitCode | None:
        """Obey; return the exit code when nothing is left in hand, or the supervisor is gone."""
        self._obey()
        if self._serving.is_dropped and not self._serving.driver.going_on:
            return ExitCode.DRAINED
        return ExitCode.ORPHANED if is_orphan(self._spec) else None

    def next(self) -> _Serving:
        """Return the queue: there is only one."""
        return self._serving

    def took(self, serving: _Serving, _end: ExitCode | None, /) -> None:
        """Listen to new partitions; read notifications of preferred ones while there is work."""
        for channel in serving.driver.channels:
            if channel not in self._listens:
                listen(self._conn, channel)
                self._listens.add(channel)
                serving.driver.wake()  # it may have grown before we listened
        self._hear()

    def wait(self, until_s: float) -> None:
        """Wait for an order, a notification, the end of a call, or the next turn."""
        self._serving.rest()
        if not self._hear():
            left_s = min(until_s - monotonic(), WAIT_S_MAX)
            others = self._pipe.fileno(), self._wakeup.fileno()
            readable(max(0.0, left_s), self._conn.fileno(), *others)
            self._hear()

    def in_hand(self) -> Iterator[tuple[QueueDriver, int]]:
        """Yield the driver, with a number that the next loss will not have."""
        yield self._serving.driver, time_ns() // 1000

    def hurries(self) -> bool:
        """Tell whether to stop trying for a new session."""
        self._obey()
        return self._serving.is_dropped or is_orphan(self._spec)

    def nap(self, seconds: float) -> None:
        """Wait without a session; an order, or the end of the supervisor, ends it."""
        until_s = monotonic() + seconds
        while (left_s := until_s - monotonic()) > 0:
            self._serving.board.rest(self._spec.slot)
            if readable(min(left_s, WAIT_S_MAX), self._pipe.fileno()) or is_orphan(self._spec):
                return

    def _obey(self) -> None:
        """Stop after this turn when told to; end of file says so, too."""
        if not self._serving.is_dropped and readable(0.0, self._pipe.fileno()):
            with suppress(EOFError):
                self._pipe.recv_bytes()
            self._serving.is_dropped = True
            self._serving.due_s = 0.0

    def _hear(self) -> bool:
        """Note which partitions grew; take a turn now, unless it is put off on purpose."""
        channels = self._notifications.channels()
        rang = self._wakeup.silence()
        serving = self._serving
        if channels:
            serving.driver.hear(channels, grew_only=not self._notifications.has_words)
        if (channels and not serving.has_trouble) or rang:
            serving.due_s = min(serving.due_s, monotonic())
        return bool(channels) or rang
