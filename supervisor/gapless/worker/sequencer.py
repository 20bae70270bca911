"""The sequencer process: one is active in the whole database, the others wait for its role."""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any

import psycopg
from psycopg import Connection

from gapless.db.connect import connect, end_of, is_transient, why_of
from gapless.db.listen import heard, listen, readable, wait
from gapless.errors import GaplessError
from gapless.failpoints import hit
from gapless.lease.room import missing_grant
from gapless.lease.squatters import name_later_holders
from gapless.log.later import Promoter
from gapless.log.sequence import (
    ROLE_CHANNEL,
    WAKE_CHANNEL,
    break_role,
    chunk_triggers,
    create_chunks,
    give_role,
    has_to_poll,
    heal_letters,
    sequence,
    stands_still,
    try_role,
    try_sleep,
    wake_up,
)
from gapless.log.topics import count_unrouted
from gapless.telemetry.meter import current
from gapless.worker.board import Board
from gapless.worker.compactor import Compactor
from gapless.worker.housekeeper import Housekeeper
from gapless.worker.life import WAIT_S_MAX, is_orphan, leave, settle
from gapless.worker.spec import ExitCode, Pipe, SequencerSpec

log = logging.getLogger("gapless.sequencer")

ROLE_POLL_S = 0.25
LOOK_EVERY_S = 0.5
POLL_S = 0.05  # asleep, where publishers notify nobody
STANDSTILL_S_MAX = 1.75  # so long may the active one leave events without an offset
DOZE_S_MAX = 0.005
# A run costs much more than an event, and so do the turns of workers that it wakes: the more events
# it found, the longer it rests. Where publishers take all the machine has, each run more costs the
# time that would make the next one worth it.
RESTS = (  # with so many events at least: so many times the run, and so long at most
    (51, 8, 0.02),
    (7, 3, 0.004),
    (1, 1, 0.004),
)
CHUNKS_EVERY_S = 5.0
CHUNKS_EVERY_EVENTS = 5_000  # half of the smallest chunk there may be
AROUND_EVERY_S = 1.0
CHUNKS_TOLD_AFTER = 10  # tries: then somebody reads for long
CHUNKS_AGAIN_S_MAX = 10.0  # between tries: who uses the default chunk waits behind each


def run_sequencer(spec: SequencerSpec, pipe: Pipe, board: Board) -> None:
    """Be a sequencer candidate until told to drain or without connection; then exit."""
    settle(spec, "sequencer")
    try:
        code = _run(spec, pipe, board)
    except GaplessError as error:
        log.error("sequencer: %s", error)  # noqa: TRY400 - one line for people
        code = ExitCode.CONNECTION_LOST
    except psycopg.Error as error:
        # Its supervisor starts the next one, after a pause that grows: a line for each is enough.
        if isinstance(error, psycopg.OperationalError) or is_transient(error):
            log.warning("sequencer: %s", end_of(error))
            code = ExitCode.CONNECTION_LOST
        else:
            log.error("sequencer: SQLSTATE %s: %s", error.sqlstate, why_of(error))  # noqa: TRY400
            log.debug("sequencer: in full", exc_info=True)
            code = ExitCode.CRASHED
    except Exception:
        log.exception("sequencer crashed")
        code = ExitCode.CRASHED
    leave(code)


def _run(spec: SequencerSpec, pipe: Pipe, board: Board) -> ExitCode:
    conn = connect(spec.dsn, role="sequencer", connect_timeout_s=spec.connect_timeout_s)
    listen(conn, ROLE_CHANNEL)
    candidate = _Candidate(conn)
    while not try_role(conn):
        board.rest(spec.slot)
        wait(conn, ROLE_POLL_S, pipe.fileno())
        if pipe.poll() or is_orphan(spec):
            return ExitCode.DRAINED
        candidate.look()
    log.info("sequencer: active")
    hit("sequencer.active")
    listen(conn, WAKE_CHANNEL)
    turn = _Turn(conn, spec, pipe, board)
    with Housekeeper(spec), Compactor(spec):
        while not pipe.poll() and not is_orphan(spec):
            turn.take()
    hit("sequencer.leaving")
    give_role(conn)
    return ExitCode.DRAINED


class _Candidate:
    """Watches the active sequencer: one that was stopped keeps the role and does nothing."""

    def __init__(self, conn: Connection[Any]) -> None:
        self._conn = conn
        self._run: int | None = None
        self._since_s = 0.0
        self._due_s = 0.0

    def look(self) -> None:
        now = monotonic()
        if now < self._due_s:
            return
        self._due_s = now + LOOK_EVERY_S
        run = stands_still(self._conn)
        if run is None or run != self._run:
            self._run, self._since_s = run, monotonic()
        elif monotonic() - self._since_s > STANDSTILL_S_MAX:
            self._end_active(run)
            self._run = None

    def _end_active(self, run: int) -> None:
        try:
            if break_role(self._conn, run):
                log.warning("sequencer: the active one did nothing: its session was ended")
        except psycopg.errors.InsufficientPrivilege as error:
            why = missing_grant(self._conn) or error
            log.warning("sequencer: the active one does nothing: %s", why)
            sequence(self._conn)  # in its place, run by run: that needs no role


class _Turn:
    """One turn of the loop: sequence, then rest awake, doze, or sleep until notified."""

    def __init__(
        self, conn: Connection[Any], spec: SequencerSpec, pipe: Pipe, board: Board
    ) -> None:
        self._conn = conn
        self._spec = spec
        self._pipe = pipe
        self._board = board
        self._later = Promoter()
        self._holders: set[str] = set()  # of what is due, as the log was told
        self._around_due_s = 0.0
        self._doze_s = 0.0
        self._chunks_due = 0.0
        self._events_since = 0
        self._refusals = 0  # so often, one after the other, somebody was in the way of a chunk
        sleep_s = POLL_S if has_to_poll(conn) else spec.wait_period_s
        self._sleep_s = min(sleep_s, WAIT_S_MAX)
        self._strays = 0  # events without a topic, as the log was told

    def take(self) -> None:
        self._chunks()
        self._look_around()
        began_s = monotonic()
        sequenced = self._sequence(promotes=self._later.is_due())
        is_asleep = not sequenced and try_sleep(self._conn)
        if is_asleep:
            began_s, sequenced = self._sleep()
        if sequenced:
            self._board.complete(self._spec.slot)
            self._events_since += sequenced
            self._rest(sequenced, monotonic() - began_s)
        if sequenced or is_asleep:
            self._doze_s = 0.0
        else:
            # A publisher is in mid-transaction and believes us awake: look again soon.
            self._doze_s = min(max(self._doze_s * 2, 0.0005), DOZE_S_MAX)
            readable(self._doze_s, self._pipe.fileno())

    def _rest(self, sequenced: int, run_s: float) -> None:
        """Let a few more events gather: the longer a run takes, the more are worth it."""
        runs, most_s = next(rest for least, *rest in RESTS if sequenced >= least)
        rest_s = self._later.rest_s(min(runs * run_s, most_s))
        readable(max(rest_s, self._spec.pause_s), self._pipe.fileno())

    def _sequence(self, *, promotes: bool) -> int:
        """Give offsets; then, perhaps, to what is due now. What waited first is never kept back."""
        self._board.begin(self._spec.slot)
        began_s = monotonic()
        try:
            sequenced = sequence(self._conn)
            if promotes and self._later.promote(self._conn):
                sequenced += sequence(self._conn)
        finally:
            self._board.rest(self._spec.slot)
        counts = current() if sequenced else None
        if counts is not None:
            counts.took("sequence", monotonic() - began_s)
        return sequenced

    def _sleep(self) -> tuple[float, int]:
        """Sleep until notified; return when the last run began, and how many events it found.

        Whoever publishes from now on notifies; who committed just before is looked for once.
        """
        hit("sequencer.asleep")
        try:
            heard(self._conn)  # of what the next run finds
            began_s, sequenced = monotonic(), self._sequence(promotes=True)
            sleep_s = self._later.wait_s(self._sleep_s)
            if not sequenced and wait(self._conn, sleep_s, self._pipe.fileno()):
                # Before anything else: somebody waits for it, and is told so by notifying in vain.
                began_s, sequenced = monotonic(), self._sequence(promotes=True)
        finally:
            wake_up(self._conn)
        hit("sequencer.awake")
        return began_s, sequenced

    def _look_around(self) -> None:
        """Tell the log who keeps what is due from getting into it; heal what a clock has done."""
        if monotonic() < self._around_due_s:
            return
        self._around_due_s = monotonic() + AROUND_EVERY_S
        heal_letters(self._conn)
        if self._later.holds:
            name_later_holders(self._conn, self._holders)

    def _chunks(self) -> None:
        # A refused try waits for the pause: each one may keep offsets back for 100 ms.
        is_used_up = self._events_since >= CHUNKS_EVERY_EVENTS and not self._refusals
        if monotonic() < self._chunks_due and not is_used_up:
            return
        self._chunks_due = monotonic() + CHUNKS_EVERY_S
        self._events_since = 0
        self._board.begin(self._spec.slot)
        try:
            made = create_chunks(self._conn)
        except psycopg.Error as error:
            if self._conn.closed:
                raise
            self._refuse_chunks(error)
            return
        finally:
            self._board.rest(self._spec.slot)
        self._refusals = 0
        hit("sequencer.chunked")
        if made:
            log.info("sequencer: made %s chunks", made)
        strays = count_unrouted(self._conn)
        if strays > self._strays:
            log.warning(
                "sequencer: %s events are of topic ids that nobody made, and have no offset: see "
                "gapless topics unrouted",
                strays,
            )
        self._strays = strays

    def _refuse_chunks(self, error: psycopg.Error) -> None:
        """Try again soon: somebody reads the default chunk, or an event trigger refuses."""
        self._refusals += 1
        self._chunks_due = monotonic() + min(self._refusals, CHUNKS_AGAIN_S_MAX)
        is_locked = isinstance(error, psycopg.errors.LockNotAvailable)
        if self._refusals % CHUNKS_TOLD_AFTER == (0 if is_locked else 1):
            log.warning(
                "sequencer: no chunk could be made in %s tries: gapless doctor says who is in "
                "the way: %s",
                self._refusals,
                "; ".join([why_of(error), *chunk_triggers(self._conn)]),
            )
