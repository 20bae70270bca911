"""The cost of an event: CPU of all participants, and WAL bytes. It is steadier than rates are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import psycopg
from psycopg import Connection

from benchmarks.cpu import CpuMeter
from benchmarks.figure import Figure, compared
from benchmarks.queries import query


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of an event. cpu_us: of server and clients, server_us: of the server; None: unknown."""

    cpu_us: float | None
    wal_bytes: float
    server_us: float | None = None


class Meter:
    """A meter of costs; it counts from its creation on."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._wal = self._wal_bytes()
        self._cpu = CpuMeter(dsn)

    def of(self, events: float) -> Cost:
        """Return the cost since then of each of this many events."""
        cpu_us = self._cpu.used_us(events)
        server_us = None if cpu_us is None else self._cpu.used_s()[0] * 1e6 / events
        return Cost(cpu_us, (self._wal_bytes() - self._wal) / events, server_us)

    def _wal_bytes(self) -> int:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            return wal_bytes(conn)


def wal_bytes(conn: Connection[Any]) -> int:
    """Return the bytes of WAL that the server has written so far."""
    row = conn.execute(query("wal_bytes")).fetchone()
    assert row is not None
    return int(row[0])


def cost_figures(
    what: str, ours: Sequence[Cost], baseline: Sequence[Cost] = (), against: str = ""
) -> list[Figure]:
    """Return CPU and WAL of an event as figures; lower is better."""
    sides = ours, baseline, against
    return [
        compared(what, "µs CPU/event", attrgetter("cpu_us"), sides),
        compared(what, "WAL bytes/event", attrgetter("wal_bytes"), sides),
    ]
