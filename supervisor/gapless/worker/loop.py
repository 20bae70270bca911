"""The worker: own session, own LISTEN, its loop over step()."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

import psycopg
import tenacity
from psycopg import Connection

from gapless.consume.claim import forget_attempt
from gapless.consume.step import Step, step, step_alone
from gapless.db.connect import connect, is_transient
from gapless.db.listen import listen, readable, wait
from gapless.db.queries import query
from gapless.errors import ConnectError, GaplessError, HoleError
from gapless.keys import Assignment
from gapless.lease import hold
from gapless.worker.board import Board
from gapless.worker.life import WAIT_S_MAX, is_orphan, leave, settle
from gapless.worker.spec import ExitCode, Pipe, WorkerSpec

log = logging.getLogger("gapless.worker")

HOLE_RETRY_S = 5.0
CAREFUL_BATCH = 64
FORGIVEN_OF = 5  # lost sessions: one of so many counts against the unit all the same
# An operator ended the session, or the server stopped: not what the handler did.
SHUTDOWN_STATES = frozenset({"57P01", "57P02", "57P03"})


@dataclass(slots=True)
class _Worker:
    spec: WorkerSpec
    pipe: Pipe
    board: Board
    conn: Connection[Any]
    assignment: Assignment
    alone: int = 0  # so many events are to be handled one unit at a time
    batch_size: int = field(default=0)
    troubled: bool = False
    began_s: float = field(default_factory=monotonic)


def run_worker(spec: WorkerSpec, pipe: Pipe, board: Board) -> None:
    """Be a worker until told to drain, fenced, or without connection; then exit the process."""
    settle(spec, f"worker {spec.partition}")
    try:
        code = _work(spec, pipe, board)
    except psycopg.OperationalError as error:
        log.warning("%s: connection lost: %s", spec.partition, _line(error))
        code = ExitCode.CONNECTION_LOST
    except GaplessError as error:
        log.error("%s: %s", spec.partition, error)  # noqa: TRY400 - one line for people
        code = ExitCode.CONNECTION_LOST
    except Exception:
        log.exception("%s: worker crashed", spec.partition)
        code = ExitCode.CRASHED
    leave(code)


def _work(spec: WorkerSpec, pipe: Pipe, board: Board) -> ExitCode:
    partition = spec.partition
    conn = connect(spec.dsn, role=f"worker {partition}", connect_timeout_s=spec.connect_timeout_s)
    conn.execute(
        query("connect", "guard_worker"),
        {"max_processing_ms": spec.max_processing_ms + 5000},
    )
    conn.execute(query("connect", "statement_timeout"), {"timeout_ms": spec.statement_timeout_ms})
    listen(conn, f"gapless_p_{partition.topic_id}_{partition.partition_id}")
    held = _acquire(conn, spec, pipe, board)
    if held is None:
        return ExitCode.ORPHANED if is_orphan(spec) else ExitCode.DRAINED
    log.info("%s: acquired, epoch %s", partition, held.assignment.epoch)
    worker = _Worker(
        spec=spec,
        pipe=pipe,
        board=board,
        conn=conn,
        assignment=held.assignment,
        # The former owner died: perhaps of a unit. Find out which, one at a time (I8).
        alone=spec.limits.batch_size if held.unclean else 0,
        batch_size=spec.limits.batch_size,
    )
    try:
        return _loop(worker)
    except psycopg.OperationalError as error:
        if worker.alone > 0:
            _forgive(worker, error)
        raise


def _acquire(conn: Connection[Any], spec: WorkerSpec, pipe: Pipe, board: Board) -> hold.Held | None:
    """Wait for the partition; None when told to stop. Keeps telling the owner we are ready."""
    began = monotonic()
    while not pipe.poll() and not is_orphan(spec):
        board.rest(spec.slot)
        hold.announce(conn, spec.partition)
        if not hold.lock(conn, spec.lease_no):
            if monotonic() - began > spec.zombie_after_s:
                hold.break_zombie(conn, spec.partition)
            continue
        assignment = hold.take(conn, spec.partition, spec.member_id)
        if assignment is not None:
            return _install(conn, spec, pipe, board, assignment)
        # Planned for someone else by now, or the owner's next worker has yet to come: make way.
        hold.unlock(conn, spec.lease_no)
        readable(0.05, pipe.fileno())
    return None


def _install(
    conn: Connection[Any], spec: WorkerSpec, pipe: Pipe, board: Board, assignment: Assignment
) -> hold.Held | None:
    while not pipe.poll() and not is_orphan(spec):
        board.rest(spec.slot)
        try:
            return hold.install(conn, assignment)
        except psycopg.errors.LockNotAvailable:
            continue  # the former owner's transaction is still open
    return None


def _loop(worker: _Worker) -> ExitCode:
    spec = worker.spec
    while not worker.pipe.poll():
        if is_orphan(spec):
            return ExitCode.ORPHANED
        try:
            done = _step(worker)
        except HoleError as error:
            _stop_at_hole(worker, error)
            continue
        except psycopg.Error as error:
            if worker.pipe.poll() and _is_retryable(worker, error):
                break  # told to drain while it could not succeed: let go all the same
            raise
        if done.outcome == "fenced":
            log.warning("%s: fenced: another owner took over", spec.partition)
            return ExitCode.FENCED
        if done.outcome == "idle":
            wait(worker.conn, min(spec.wait_period_s, WAIT_S_MAX), worker.pipe.fileno())
    hold.release(worker.conn, worker.assignment, spec.lease_no)
    log.info("%s: released", spec.partition)
    return ExitCode.DRAINED


def _step(worker: _Worker) -> Step:
    """Do one step, however often the environment makes it fail; adapt the size to failures."""
    limits = replace(worker.spec.limits, batch_size=worker.batch_size)
    turn = step_alone if worker.alone > 0 else step
    done = Step(outcome="idle")
    for attempt in tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: _is_retryable(worker, error)),
        wait=tenacity.wait_random_exponential(multiplier=0.05, max=10),
        stop=lambda _: worker.pipe.poll(),
        before_sleep=lambda state: _report(worker, state),
        sleep=lambda seconds: _nap(worker, seconds),
        reraise=True,
    ):
        with attempt:
            worker.board.begin(worker.spec.slot)
            try:
                done = turn(worker.conn, worker.assignment, worker.spec.handler, limits)
            finally:
                worker.board.rest(worker.spec.slot)
    if worker.troubled:
        hold.report_error(worker.conn, worker.assignment, None)
        worker.troubled = False
    if done.dead:
        log.warning("%s: %s units to the dead letter queue", worker.spec.partition, done.dead)
        worker.batch_size = min(worker.batch_size, CAREFUL_BATCH)
    elif done.outcome == "done":
        worker.board.complete(worker.spec.slot)
        worker.batch_size = min(worker.batch_size * 2, worker.spec.limits.batch_size)
    worker.alone = max(0, worker.alone - max(done.events, int(done.outcome == "idle")))
    return done


def _is_retryable(worker: _Worker, error: BaseException) -> bool:
    return is_transient(error) and not worker.conn.broken and not worker.conn.closed


def _report(worker: _Worker, state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    text = _line(error) if error else "unknown"
    if state.attempt_number in (1, 3, 10) or state.attempt_number % 30 == 0:
        log.warning("%s: will try again: %s", worker.spec.partition, text)
    if state.attempt_number == 3:
        hold.report_error(worker.conn, worker.assignment, f"retrying: {text}")
        worker.troubled = True


def _nap(worker: _Worker, seconds: float) -> None:
    until_s = monotonic() + seconds
    while (left_s := until_s - monotonic()) > 0:
        worker.board.rest(worker.spec.slot)
        if readable(min(left_s, WAIT_S_MAX), worker.pipe.fileno()) or is_orphan(worker.spec):
            return


def _forgive(worker: _Worker, error: psycopg.Error) -> None:
    """Take the unit's last attempt back, from a new session, if it is not to blame for the loss.

    An operator or a restart of the server is; a session lost for no known reason counts as a death.
    So does one loss of FORGIVEN_OF: a unit may know how to make the server do it.
    """
    if worker.assignment.epoch % FORGIVEN_OF == 0:
        return
    spec = worker.spec
    for attempt in tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((ConnectError, psycopg.OperationalError)),
        wait=tenacity.wait_random_exponential(multiplier=0.05, max=1),
        stop=lambda state: (
            (state.seconds_since_start or 0) > spec.connect_timeout_s
            or worker.pipe.poll()
            or is_orphan(spec)
        ),
        sleep=lambda seconds: _nap(worker, seconds),
        retry_error_callback=lambda _: None,
    ):
        with (
            attempt,
            contextlib.closing(
                connect(
                    spec.dsn,
                    role=f"worker {spec.partition}",
                    connect_timeout_s=spec.connect_timeout_s,
                )
            ) as conn,
        ):
            age_s = monotonic() - worker.began_s
            restarted = conn.execute(query("lease", "restarted"), {"age_s": age_s}).fetchone()
            if error.sqlstate in SHUTDOWN_STATES or restarted == (True,):
                forget_attempt(conn, worker.assignment)


def _stop_at_hole(worker: _Worker, error: HoleError) -> None:
    """Stay on the partition without going on, and say so; it goes on when the hole is mended."""
    if not worker.troubled:
        log.error("%s: stopped: %s", worker.spec.partition, error)
    hold.report_error(worker.conn, worker.assignment, f"stopped: {error}")
    worker.troubled = True
    _nap(worker, HOLE_RETRY_S)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__
