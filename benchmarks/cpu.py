"""CPU time of all participants: on a shared machine it is more reliable than a rate.

It needs Linux and a server on this machine; elsewhere there is no figure. The time of a living
process is read to the nanosecond; only that of ended ones below the server is in ticks of 10 ms.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import clock_gettime, process_time

import psycopg

from benchmarks.queries import query

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_CPUCLOCK_SCHED = 2


class CpuMeter:
    """Counts, from its creation, the CPU time of the server, this process and its descendants."""

    def __init__(self, dsn: str) -> None:
        self._postmaster = postmaster(dsn)
        self._began_s = self._now_s()
        self._began = self._server_s(), self._ours_s()

    def used_s(self) -> tuple[float, float]:
        """Return the CPU seconds of the server, and of this process with its descendants."""
        server_s, ours_s = self._began
        return self._server_s() - server_s, self._ours_s() - ours_s

    def used_us(self, events: float) -> float | None:
        """Return the CPU time since then for each of this many events; None if it is unknown."""
        now_s = self._now_s()
        if now_s is None or self._began_s is None:
            return None
        return (now_s - self._began_s) * 1e6 / events

    def _now_s(self) -> float | None:
        if self._postmaster is None:
            return None
        return self._ours_s() + self._server_s()

    def _ours_s(self) -> float:
        return process_time() + _descendants_s(os.getpid(), _own_ended_s)

    def _server_s(self) -> float:
        if self._postmaster is None:
            return 0.0
        return own_s(self._postmaster) + _descendants_s(self._postmaster)


def postmaster(dsn: str) -> int | None:
    """Return the process id of the server, if it runs on this machine."""
    with psycopg.connect(dsn) as conn:
        if not conn.info.host.startswith("/"):
            return None
        row = conn.execute(query("backend_pid")).fetchone()
        assert row is not None
        stat = _stat(row[0])
    return int(stat[1]) if stat else None


def descendants(pid: int | None) -> list[int]:
    """Return the processes below a process."""
    children = [] if pid is None else _children(pid)
    return [below for child in children for below in (child, *descendants(child))]


def _children(pid: int) -> list[int]:
    """Return the children of a process, of all its threads (Spark's JVM forks from several)."""
    found: list[int] = []
    with suppress(OSError):  # the process has just ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += [int(word) for word in (thread / "children").read_text().split()]
    return found


def _descendants_s(pid: int, ended: Callable[[int], float] | None = None) -> float:
    """Return the CPU time of the descendants of a process, ended ones included."""
    ended = ended or _ended_s
    while True:
        ended_s = ended(pid)
        alive_s = sum(own_s(child) + _descendants_s(child) for child in _children(pid))
        if ended(pid) == ended_s:  # or one has just ended, and is in neither number
            return ended_s + alive_s


def _ended_s(pid: int) -> float:
    """Return the sum over the children that have ended, in ticks of 10 ms: it is off by two."""
    return sum(int(ticks) for ticks in _stat(pid)[13:15]) / _TICKS_PER_S


def _own_ended_s(_pid: int) -> float:
    """Return the same for this process, in microseconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def own_s(pid: int) -> float:
    """Return the CPU time of a process, ended threads included, in nanoseconds if possible.

    A process has a CPU clock of its own (clock_getcpuclockid(3)), whose number is made of its id.
    """
    with suppress(OSError):
        return clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
    return sum(int(ticks) for ticks in _stat(pid)[11:13]) / _TICKS_PER_S


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on (proc(5) numbers it 3); [] if gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
