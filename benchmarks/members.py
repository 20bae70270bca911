"""Members: the cost of an idle fleet, and its memory with a process a partition and with fewer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import sleep
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection

from benchmarks.cpu import CpuMeter, descendants, postmaster
from benchmarks.figure import Figure, Target
from benchmarks.queries import query
from benchmarks.server import Setup
from benchmarks.supervised import supervised, wait_for
from gapless import handler
from gapless.consume.unit import Unit

SUPERVISORS = 8
PARTITIONS = 64
PER_WORKER = (1, 8, 16)
SETTLE_S = 3.0
FIELDS = {"uss": ("Private_Clean", "Private_Dirty"), "pss": ("Pss",)}


class _Idle(NamedTuple):
    transactions: float
    xids_beside_beats: float
    sessions: float
    server_cpu: float
    fleet_cpu: float


class _Memory(NamedTuple):
    uss_mb: float
    pss_mb: float


@handler(topic="outbox", group="members")
def noop(_unit: Unit, _conn: Connection[Any]) -> None:
    """Never run: there are no events."""


def run(setup: Setup) -> list[Figure]:
    """Let a fleet of eight idle; then measure the memory of one supervisor with all partitions."""
    figures: list[Figure] = []
    for per_worker in PER_WORKER[:1]:
        figures += _idle(setup, per_worker)
    for per_worker in PER_WORKER:
        figures += _memory(setup, per_worker)
    return figures


# -- nothing is published ------------------------------------------------------------------------


def _idle(setup: Setup, per_worker: int) -> list[Figure]:
    duration_s = setup.pick(1, 3, 6)
    with setup.database("members") as dsn, _fleet(dsn, SUPERVISORS, per_worker):
        idle = _watch(dsn, duration_s)
    what = f"idle, {SUPERVISORS} supervisors, {PARTITIONS} partitions, {per_worker} a worker"
    return [
        Figure(what=f"{what}: transactions", unit="/s", ours=(idle.transactions,)),
        Figure(
            what=f"{what}: xids beside heartbeats",
            unit="/s",
            ours=(idle.xids_beside_beats,),
            target=Target("value", at_most=0.1),
        ),
        Figure(what=f"{what}: sessions", unit="", ours=(idle.sessions,)),
        Figure(what=f"{what}: CPU of the server", unit="% of a core", ours=(idle.server_cpu,)),
        Figure(what=f"{what}: CPU of the fleet", unit="% of a core", ours=(idle.fleet_cpu,)),
    ]


def _watch(dsn: str, duration_s: float) -> _Idle:
    meter = CpuMeter(dsn)
    before = _row(dsn, "activity")
    sleep(duration_s)
    after = _row(dsn, "activity")
    xids, _, transactions, beats = (b - a for a, b in zip(before, after, strict=True))
    server_s, fleet_s = meter.used_s()
    return _Idle(
        transactions=transactions / duration_s,
        xids_beside_beats=(xids - beats) / duration_s,
        sessions=float(_row(dsn, "sessions")[0]),
        server_cpu=server_s / duration_s * 100,
        fleet_cpu=fleet_s / duration_s * 100,
    )


@contextmanager
def _fleet(dsn: str, supervisors: int, per_worker: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(supervisors):
            stack.enter_context(
                supervised(dsn, noop, total_partitions=PARTITIONS, partitions_per_worker=per_worker)
            )
        wait_for(dsn, "balanced", bool, group_id=noop.group)
        sleep(SETTLE_S)
        yield


def _row(dsn: str, name: str) -> tuple[Any, ...]:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(query(name)).fetchone()
    assert row is not None
    return row


# -- memory --------------------------------------------------------------------------------------


def _memory(setup: Setup, per_worker: int) -> list[Figure]:
    with setup.database("members") as dsn, _fleet(dsn, 1, per_worker):
        (sessions,) = _row(dsn, "sessions")
        workers = [pid for pid in descendants(os.getpid()) if _title(pid).startswith("gapless: w")]
        fleet = _weigh(workers)
        mark = dsn.split("dbname=")[1].split()[0]
        server = _weigh([p for p in descendants(postmaster(dsn)) if mark in _title(p)])
    what = f"memory, {PARTITIONS} partitions, {per_worker} a worker"
    return [
        Figure(what=f"{what}: processes", unit="", ours=(len(workers),)),
        Figure(what=f"{what}: sessions", unit="", ours=(float(sessions),)),
        Figure(what=f"{what}: workers, USS", unit="MB", ours=(fleet.uss_mb,)),
        Figure(what=f"{what}: workers, PSS", unit="MB", ours=(fleet.pss_mb,)),
        Figure(what=f"{what}: their backends, USS", unit="MB", ours=(server.uss_mb,)),
        Figure(what=f"{what}: their backends, PSS", unit="MB", ours=(server.pss_mb,)),
    ]


def _weigh(pids: list[int]) -> _Memory:
    kb = {"uss": 0, "pss": 0}
    for pid in pids:
        for line in _read(pid, "smaps_rollup").splitlines():
            name, _, value = line.partition(":")
            for which, fields in FIELDS.items():
                if name in fields:
                    kb[which] += int(value.split()[0])
    return _Memory(uss_mb=kb["uss"] / 1024, pss_mb=kb["pss"] / 1024)


def _title(pid: int) -> str:
    return _read(pid, "cmdline").replace("\0", " ")


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:  # the process has ended
        return ""
