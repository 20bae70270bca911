"""The sequencer process: one is active in the whole database, the others wait for its role."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from time import monotonic
from typing import Any

import psycopg
from psycopg import Connection

from gapless import feature
from gapless.db.connect import connect, end_of, is_transient, why_of
from gapless.db.listen import heard, listen, readable, wait
from gapless.errors import GaplessError
from gapless.failpoints import hit
from gapless.lease.foreign_locks import name_later_holders
from gapless.lease.room import missing_grant
from gapless.log.promote import promoter
from gapless.log.sequence import (
    LATER,
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
from gapless.worker.cadence import Cadence
from gapless.worker.life import WAIT_S_MAX, is_orphan, leave, settle
from gapless.worker.spec import ExitCode, Pipe, SequencerSpec

log = logging.getLogger("gapless.sequencer")

ROLE_POLL_S = 0.25
LOOK_EVERY_S = 0.5
POLL_S = 0.05  # asleep, where publishers cannot notify
STANDSTILL_S_MAX = 1.75  # the active sequencer may leave events without an offset this long
BUSY_S = 0.05  # when notified of events, it waits this long for a concurrent run
CHUNKS_EVERY_S = 5.0
CHUNKS_EVERY_EVENTS = 5_000  # half of the smallest possible chunk
AROUND_EVERY_S = 1.0
CHUNKS_TOLD_AFTER = 10  # tries: by then a reader has held its lock for long
CHUNKS_AGAIN_S_MAX = 10.0  # between tries: users of the default chunk wait behind each


def run_sequencer(spec: SequencerSpec, pipe: Pipe, board: Board) -> None:
    """Be a sequencer candidate until told to drain or without connection; then exit."""
    settle(spec, "sequencer")
    try:
        code = _run(spec, pipe, board)
    except GaplessError as error:
        log.error("sequencer: %s", error)  # noqa: TRY400 - one line for people
        code = ExitCode.CONNECTION_LOST
    except psycopg.Error as error:
        # Its supervisor starts the next one after a pause that grows, so a line for each is enough.
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
    conn = connect(spec.dsn, role="sequencer", connect_timeout_s=spec.settings.connect_timeout_s)
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
    with ExitStack() as beside:
        for duty in feature.parts(lambda each: each.duties()):
            beside.enter_context(duty(spec))
        while not pipe.poll() and not is_orphan(spec):
            turn.take()
    hit("sequencer.leaving")
    turn.wake_up()
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
    """One turn of the loop: sequence; then rest, doze, or fall asleep.

    Publishers notify a sequencer that is asleep, and each of its turns begins with a wait for that:
    a run follows every commit. It wakes up where they do so too often, and where some do not.
    """

    def __init__(
        self, conn: Connection[Any], spec: SequencerSpec, pipe: Pipe, board: Board
    ) -> None:
        self._conn = conn
        self._spec = spec
        self._pause_s = spec.settings.sequencer_pause_ms / 1000
        self._pipe = pipe
        self._board = board
        self._later = promoter()
        self._cadence = Cadence()
        self._holders: set[str] = set()  # of due events, as last logged
        self._around_due_s = 0.0
        self._chunks_due = 0.0
        self._events_since = 0
        self._refusals = 0  # tries in a row in which a lock was in the way of a chunk
        sleep_s = POLL_S if has_to_poll(conn) else spec.settings.wait_period_ms / 1000
        self._sleep_s = min(sleep_s, WAIT_S_MAX)
        self._is_asleep = False
        self._look_due_s = 0.0  # asleep: the next look for events without a notification
        self._strays = 0  # events without a topic, as last logged

    def take(self) -> None:
        self._chunks()
        self._look_around()
        told = self._sleep() if self._is_asleep else []
        is_due = self._later.wait_s(1.0) <= 0
        began_s = monotonic()
        sequenced = self._sequence(promotes=self._promotes(told, is_due=is_due))
        if sequenced:
            run_s = monotonic() - began_s
            self._cadence.found(sequenced, began_s, run_s)
            self._gave(sequenced)
            if self._cadence.is_busy or not (told or is_due):
                self.wake_up()
            self._rest(sequenced, run_s)
        elif self._is_asleep and not told:
            self._cadence.idle()
        elif self._is_asleep or not self._fall_asleep():
            # The notification was in vain; or a publisher in mid-transaction believes us awake.
            readable(self._cadence.doze_s(), self._pipe.fileno())

    def wake_up(self) -> None:
        """Make publishers stop notifying, if they do."""
        if self._is_asleep:
            self._is_asleep = False
            wake_up(self._conn)
            hit("sequencer.awake")

    def _fall_asleep(self) -> bool:
        """Make publishers notify, if none is in mid-transaction; the next turn does not wait."""
        self._is_asleep = try_sleep(self._conn)
        if self._is_asleep:
            hit("sequencer.asleep")
            self._look_due_s = 0.0  # MUST look once more: an event may have committed just before
            heard(self._conn)  # drop the notifications of events that this look finds
        return self._is_asleep

    def _sleep(self) -> list[str]:
        """Wait for a notification, or until there is something to look for; return the payloads."""
        told = heard(self._conn)
        if not told:
            wait_s = self._later.wait_s(max(self._look_due_s - monotonic(), 0.0))
            readable(wait_s, self._conn.fileno(), self._pipe.fileno())
            told = heard(self._conn)
        return told

    def _promotes(self, told: list[str], *, is_due: bool) -> bool:
        """Tell whether to look for due events; asleep, also for those without a notification."""
        if not self._is_asleep:
            return self._later.is_due()
        now_s = monotonic()
        if LATER in told or now_s >= self._look_due_s:
            self._look_due_s = now_s + self._sleep_s
            return True
        return is_due

    def _gave(self, events: int) -> None:
        """Note a run that gave this many offsets; the supervisor can ring workers from here on."""
        self._events_since += events
        self._board.complete(self._spec.slot)

    def _rest(self, sequenced: int, run_s: float) -> None:
        """Awake, let more events gather; asleep, a publisher or reader waits for each."""
        rest_s = 0.0
        if not self._is_asleep:
            rest_s = self._later.rest_s(self._cadence.rest_s(sequenced, run_s))
        readable(max(rest_s, self._pause_s), self._pipe.fileno())

    def _sequence(self, *, promotes: bool) -> int:
        """Give offsets; then, if `promotes`, to due events too. The first never wait for these."""
        self._board.begin(self._spec.slot)
        began_s = monotonic()
        try:
            sequenced = sequence(self._conn, patience_s=BUSY_S if self._is_asleep else 0.0)
            if promotes and self._later.promote(self._conn):
                sequenced += sequence(self._conn)
        finally:
            self._board.rest(self._spec.slot)
        counts = current() if sequenced else None
        if counts is not None:
            counts.took("sequence", monotonic() - began_s)
        return sequenced

    def _look_around(self) -> None:
        """Log the sessions that keep due events out of the log; repair effects of clock jumps."""
        if monotonic() < self._around_due_s:
            return
        self._around_due_s = monotonic() + AROUND_EVERY_S
        heal_letters(self._conn)
        if self._later.holds:
            name_later_holders(self._conn, self._holders)

    def _chunks(self) -> None:
        # A refused try waits for the pause: each try may delay offsets by 100 ms.
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
        """Try again soon: a reader locks the default chunk, or an event trigger refuses."""
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
