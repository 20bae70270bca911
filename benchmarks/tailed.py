"""The least cost of a log beside its writers: one session that often looks for new events.

It reads each event's key once, commits its position, and rests as long as the sequencer does. It
gives no offsets, wakes no reader, and misses events that commit late: no log can do with less.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

import multiprocess
import psycopg

from benchmarks.queries import query
from gapless.worker.cadence import RESTS

_fork = multiprocess.get_context("fork")


@contextmanager
def tailed(dsn: str) -> Iterator[None]:
    """Let another process read the plain table within the block."""
    process = _fork.Process(target=_tail, args=(dsn,), name="tail", daemon=True)
    process.start()
    try:
        yield
        if not process.is_alive():
            raise RuntimeError(f"who reads ended with exit code {process.exitcode}")
    finally:
        process.kill()
        process.join()


def _tail(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        (upto,) = conn.execute(query("tail_from_here")).fetchone() or (0,)
        _, runs, most_s = RESTS[0]
        while True:
            began_s = monotonic()
            (upto,) = conn.execute(query("tail"), {"upto": upto}).fetchone() or (upto,)
            sleep(min(runs * (monotonic() - began_s), most_s))
