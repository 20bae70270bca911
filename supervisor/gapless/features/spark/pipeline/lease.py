"""The lease of a pipeline: one run at a time, with an epoch that its commits are compared with.

The run's session holds an advisory lock, which is free as soon as its process ends. A process that
is paused, or unreachable, gives no sign of life: then another instance ends its session. Either
way the next run begins a new epoch, and batches of an earlier one cannot end (end_batch.sql).
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import Connection

from gapless.db.connect import connect
from gapless.db.locked import lock_timeout
from gapless.db.queries import query
from gapless.errors import ConnectError, GaplessError, UsageError, one_line
from gapless.lease.foreign_locks import end_foreign_locks

log = logging.getLogger("gapless.spark")

ENDS_MS = 2000
FILES_MS = 30_000
BEAT_S = 5.0
TTL_S = 30.0  # without a sign of life, another instance may take over


def lock_pipeline(conn: Connection[Any], name: str) -> None:
    """Be the only run of the pipeline while `conn` lives; UsageError if there is another.

    Waits ENDS_MS for a run that has just ended: its session ends at the server a little later.
    """
    end_foreign_locks(conn, set())
    try:
        with lock_timeout(conn, ENDS_MS):
            conn.execute(query("spark", "lock_pipeline"), {"name": name})
    except psycopg.errors.LockNotAvailable:
        raise UsageError(
            f"pipeline {name} is running already, here or on another machine"
        ) from None


def try_lock_pipeline(conn: Connection[Any], name: str) -> bool:
    """Lock the pipeline as above if no other session has the lock; end a silent one that has."""
    row = conn.execute(query("spark", "try_lock_pipeline"), {"name": name}).fetchone()
    if row is not None and row[0]:
        return True
    end_foreign_locks(conn, set())
    ended = conn.execute(query("spark", "end_silent_run"), {"name": name, "ttl_s": TTL_S})
    if (ended.fetchone() or (0,))[0]:
        log.warning(
            "pipeline %s: its run gave no sign of life for %.0f s: taking over", name, TTL_S
        )
    return False


def unlock_pipeline(conn: Connection[Any], name: str) -> None:
    """Let another session have the lock."""
    conn.execute(query("spark", "unlock_pipeline"), {"name": name})


@contextmanager
def locked_pipeline(conn: Connection[Any], name: str) -> Iterator[None]:
    """Have the pipeline's lock in the block; UsageError while it runs."""
    lock_pipeline(conn, name)
    try:
        yield
    finally:
        with suppress(psycopg.Error):
            unlock_pipeline(conn, name)


@contextmanager
def compacting(conn: Connection[Any], name: str) -> Iterator[None]:
    """Be the only one that merges the pipeline's files; UsageError if another session does."""
    end_foreign_locks(conn, set())
    row = conn.execute(query("spark", "try_lock_compaction"), {"name": name}).fetchone()
    if row is None or not row[0]:
        raise UsageError(f"files of pipeline {name} are being merged, here or on another machine")
    try:
        yield
    finally:
        with suppress(psycopg.Error):
            conn.execute(query("spark", "unlock_compaction"), {"name": name})


@contextmanager
def files_locked(conn: Connection[Any], name: str) -> Iterator[None]:
    """Be the only one that gives files of the pipeline their names, or exchanges a folder.

    Raises GaplessError if another session does so for FILES_MS.
    """
    end_foreign_locks(conn, set())
    try:
        with lock_timeout(conn, FILES_MS):
            conn.execute(query("spark", "lock_files"), {"name": name})
    except psycopg.errors.LockNotAvailable:
        raise GaplessError(
            f"another process moves files of pipeline {name}, and does not end"
        ) from None
    try:
        yield
    finally:
        with suppress(psycopg.Error):
            conn.execute(query("spark", "unlock_files"), {"name": name})


@contextmanager
def standing_by(conn: Connection[Any], name: str) -> Iterator[None]:
    """Let the status count this session as one that stands by for the pipeline."""
    conn.execute(query("spark", "stand_by"), {"name": name})
    try:
        yield
    finally:
        with suppress(psycopg.Error):
            conn.execute(query("spark", "stand_by_no_more"), {"name": name})


def take_pipeline(conn: Connection[Any], name: str) -> int:
    """Begin a run of a registered pipeline, which `conn` has locked; return its epoch."""
    runner = f"{socket.gethostname()}:{os.getpid()}"
    row = conn.execute(query("spark", "take_pipeline"), {"name": name, "runner": runner}).fetchone()
    if row is None or row[0] is None:
        raise UsageError(f"pipeline {name} was removed a moment ago: run it again")
    return int(row[0])


def runner_of(conn: Connection[Any], name: str) -> str | None:
    """Return the host and process of the newest run."""
    row = conn.execute(query("spark", "runner_of"), {"name": name}).fetchone()
    return row[0] if row else None


class Heart:
    """Gives signs of life for the runs of this process, in a thread with a session of its own."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._runs: dict[str, int] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="gapless-heart", daemon=True)

    def __enter__(self) -> Heart:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(BEAT_S)

    @contextmanager
    def beating(self, name: str, epoch: int) -> Iterator[None]:
        """Give signs of life for a run, which take_pipeline() gave the first of, in the block."""
        self._runs[name] = epoch
        try:
            yield
        finally:
            self._runs.pop(name, None)

    def _beat(self) -> None:
        conn: Connection[Any] | None = None
        while not self._end.wait(BEAT_S):
            runs = dict(self._runs)
            if not runs:
                continue
            try:
                if conn is None or conn.closed:
                    conn = connect(self._dsn, role="spark pulse")
                conn.execute(
                    query("spark", "beat_pipelines"),
                    {"names": list(runs), "epochs": list(runs.values())},
                )
            except (psycopg.Error, ConnectError) as error:
                log.debug("no sign of life for pipelines: %s", one_line(error))
        if conn is not None:
            conn.close()
