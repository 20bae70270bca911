"""The sequencer process: one is active in the whole database, the others wait for its role."""

from __future__ import annotations

import logging
import os
import select
from time import monotonic
from typing import Any

import psycopg
from psycopg import Connection

from gapless.db.connect import connect, is_transient
from gapless.db.listen import listen, wait
from gapless.errors import GaplessError
from gapless.log.sequence import (
    WAKE_CHANNEL,
    create_chunks,
    sequence,
    try_role,
    try_sleep,
    wake_up,
)
from gapless.worker.life import WAIT_S_MAX, is_orphan, settle
from gapless.worker.spec import ExitCode, Pipe, SequencerSpec

log = logging.getLogger("gapless.sequencer")

ROLE_POLL_S = 0.25
PAUSE_S_MAX = 0.005
CHUNKS_EVERY_S = 30.0
CHUNKS_EVERY_EVENTS = 50_000


def run_sequencer(spec: SequencerSpec, pipe: Pipe) -> None:
    """Be a sequencer candidate until told to drain or without connection; then exit."""
    settle(spec, "sequencer")
    try:
        code = _run(spec, pipe)
    except psycopg.OperationalError as error:
        log.warning("sequencer: connection lost: %s", " ".join(str(error).split()))
        code = ExitCode.CONNECTION_LOST
    except GaplessError as error:
        log.error("sequencer: %s", error)  # noqa: TRY400 - one line for people
        code = ExitCode.CONNECTION_LOST
    except Exception:
        log.exception("sequencer crashed")
        code = ExitCode.CRASHED
    logging.shutdown()
    os._exit(code)


def _run(spec: SequencerSpec, pipe: Pipe) -> ExitCode:
    conn = connect(spec.dsn, role="sequencer", connect_timeout_s=spec.connect_timeout_s)
    while not try_role(conn):
        if _told(spec, pipe, ROLE_POLL_S):
            return ExitCode.DRAINED
    log.info("sequencer: active")
    listen(conn, WAKE_CHANNEL)
    turn = _Turn(conn, spec, pipe)
    while not _told(spec, pipe, 0):
        turn.take()
    return ExitCode.DRAINED


def _told(spec: SequencerSpec, pipe: Pipe, timeout_s: float) -> bool:
    readable, _, _ = select.select([pipe], [], [], timeout_s)
    return bool(readable) or is_orphan(spec)


class _Turn:
    """One turn of the loop: sequence, then rest awake, doze, or sleep until notified."""

    def __init__(self, conn: Connection[Any], spec: SequencerSpec, pipe: Pipe) -> None:
        self._conn = conn
        self._spec = spec
        self._pipe = pipe
        self._doze_s = 0.0
        self._chunks_due = 0.0
        self._events_since = 0

    def take(self) -> None:
        self._chunks()
        sequenced = sequence(self._conn)
        self._events_since += sequenced
        if sequenced:
            self._doze_s = 0.0
            select.select([self._pipe], [], [], self._spec.pause_s)  # let a few more gather
        elif try_sleep(self._conn):
            self._sleep()
        else:
            # A publisher is in mid-transaction and believes us awake: look again soon (DESIGN 3).
            self._doze_s = min(max(self._doze_s * 2, 0.0005), PAUSE_S_MAX)
            select.select([self._pipe], [], [], self._doze_s)

    def _sleep(self) -> None:
        """Whoever publishes from now on notifies; who committed just before is looked for once."""
        try:
            if not sequence(self._conn):
                wait(self._conn, min(self._spec.wait_period_s, WAIT_S_MAX), self._pipe.fileno())
        finally:
            wake_up(self._conn)
        self._doze_s = 0.0

    def _chunks(self) -> None:
        due = monotonic() >= self._chunks_due or self._events_since >= CHUNKS_EVERY_EVENTS
        if not due:
            return
        self._chunks_due = monotonic() + CHUNKS_EVERY_S
        self._events_since = 0
        try:
            made = create_chunks(self._conn)
        except psycopg.Error as error:
            if not is_transient(error):
                raise
            self._chunks_due = monotonic() + 1.0  # somebody reads the default chunk: try again
            return
        if made:
            log.info("sequencer: made %s chunks", made)
