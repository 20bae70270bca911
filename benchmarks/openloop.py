"""Load at a fixed rate, even when a side is slow, and the fate of each event.

An event's time counts from the moment when it is due, even if its sender is late: so a stall is
charged to every event that it delays.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, monotonic_ns, sleep
from typing import Any

import psycopg
from psycopg import Connection

from benchmarks.crew import Cue, Job, crew

PER_SENDER_S = 125  # events a second: one Python process sends them without being late by itself
ARRIVE_S_MAX = 60.0
HEAD_START_NS = 100_000_000

Send = Callable[[Connection[Any], int], None]
Times = dict[int, int]

_RECORD = struct.Struct("=qq")  # the number of an event, its moment in monotonic ns


class Notebook:
    """Moments of events, written by any process, read by one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._appending = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(self, n: int) -> None:
        """Note the present moment for event n."""
        os.write(self._appending, _RECORD.pack(n, monotonic_ns()))

    def read(self) -> Times:
        return dict(_RECORD.iter_unpack(self._path.read_bytes()))

    def count(self) -> int:
        return self._path.stat().st_size // _RECORD.size

    def close(self) -> None:
        os.close(self._appending)


@contextmanager
def notebooks() -> Iterator[tuple[Notebook, Notebook]]:
    """Yield a notebook of sent events (their commit returned) and one of those that arrived."""
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder:
        sent, arrived = (Notebook(Path(folder) / name) for name in ("sent", "arrived"))
        try:
            yield sent, arrived
        finally:
            sent.close()
            arrived.close()


def send_all(
    dsn: str, total: int, per_s: int, send: Send, sent: Notebook, *, give_up: bool = False
) -> Times:
    """Send `total` events at the given rate; return the time at which each was due.

    give_up: events not sent when the last is due are not sent at all, and not returned.
    """
    senders = -(-per_s // PER_SENDER_S)
    last = total if give_up else None
    with tempfile.NamedTemporaryFile(prefix="gapless-bench-") as shared:
        beginning = Path(shared.name)
        jobs: list[Job] = [
            partial(_send, dsn, range(first, total, senders), (beginning, per_s, last), send, sent)
            for first in range(senders)
        ]
        # All are connected when the block begins; they wait for the moment to be written down.
        with crew(jobs) as sending:
            began_ns = monotonic_ns() + HEAD_START_NS
            beginning.write_text(str(began_ns))
            sending.join()
    return {n: _due_ns(began_ns, n, per_s) for n in sorted(sent.read())}


def wait_for_all(arrived: Notebook, total: int) -> None:
    """Wait until `total` events have arrived. Raises TimeoutError after ARRIVE_S_MAX."""
    give_up_s = monotonic() + ARRIVE_S_MAX
    while (count := arrived.count()) < total:
        if monotonic() > give_up_s:
            raise TimeoutError(f"{total - count} of {total} events did not arrive")
        sleep(0.05)


def late_ms(due: Times, happened: Times, first: int = 0) -> list[float]:
    """Return how much later than due each event from number `first` on happened."""
    return [(happened[n] - due[n]) / 1e6 for n in sorted(due) if n >= first]


def _send(
    dsn: str,
    numbers: range,
    pace: tuple[Path, int, int | None],
    send: Send,
    sent: Notebook,
    cue: Cue,
) -> int:
    """Send the events of these numbers; return their count.

    pace: the file with the beginning, events a second, the event after which to give up.
    """
    beginning, per_s, last = pace
    with psycopg.connect(dsn, autocommit=True) as conn:
        cue.begin()
        while not (text := beginning.read_text()):
            sleep(0.001)
        for n in numbers:
            wait_ns = _due_ns(int(text), n, per_s) - monotonic_ns()
            if wait_ns > 0:
                sleep(wait_ns / 1e9)
            if last is not None and monotonic_ns() > _due_ns(int(text), last, per_s):
                break
            send(conn, n)
            sent.write(n)
    return len(numbers)


def _due_ns(began_ns: int, n: int, per_s: int) -> int:
    return began_ns + n * 1_000_000_000 // per_s
