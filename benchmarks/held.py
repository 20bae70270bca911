"""A held snapshot: an unrelated transaction stays open while events are published and handled.

Row versions that become dead after its start cannot be removed. A design that updates the same rows
for every batch gets slower and slower; the curves show how much.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from statistics import median
from time import monotonic
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection, IsolationLevel

import gapless
from benchmarks import counters
from benchmarks.chart import Chart, Panel, Points
from benchmarks.crew import Cue, crew
from benchmarks.figure import Figure, Target
from benchmarks.openloop import Notebook, Send, Times, notebooks, send_all, wait_for_all
from benchmarks.queries import query
from benchmarks.server import Setup
from benchmarks.supervised import supervised
from gapless.consume.unit import Unit

RATE_PER_S = 1000
PARTITIONS = 8
BUCKETS = 10
PROBES_PER_BUCKET = 10
GROUP = "held"

RIVAL = counters.NAME
START = "its own start"


class _Bucket(NamedTuple):
    """A tenth of the time: events committed per second, medians of latency and claim."""

    at_s: float
    published: float
    latency_ms: float
    claim_ms: float


def run(setup: Setup) -> list[Figure]:
    """Hold a snapshot beside each design in turn; draw the curves."""
    minutes = setup.minutes or setup.pick(0.02, 0.15, 0.5)
    per_s = setup.pick(200, RATE_PER_S, RATE_PER_S)
    curves = {}
    for name, kind in (("ours", _ours), (RIVAL, _rival)):
        with setup.database("held") as dsn:
            curves[name] = _measure(dsn, minutes * 60, per_s, kind)
    panels = [
        Panel(title=title, series={name: _line(curve, at) for name, curve in curves.items()})
        for at, title in (
            (1, f"published a second, of {per_s} due"),
            (2, "due to handler, median, ms"),
            (3, "a claim, median, ms"),
        )
    ]
    setup.charts.append(Chart(name="held-curves", x_label="s with a held snapshot", panels=panels))
    figures = []
    for name, curve in curves.items():
        figures += _figures(f"{name}, {minutes:g} minutes", curve, bound=name == "ours")
    return figures


def _figures(what: str, curve: list[_Bucket], *, bound: bool) -> list[Figure]:
    """Compare the end with the start; the first bucket, in which everything is new, is left out."""
    slower, less = Target("ratio", at_most=1.1), Target("ratio", at_least=0.9)

    def figure(name: str, unit: str, at: int, target: Target) -> Figure:
        return Figure(
            what=f"{what}: {name}",
            unit=unit,
            ours=(curve[-1][at],),
            baseline=(curve[1][at],),
            against=START,
            target=target if bound else None,
        )

    return [
        figure("published", "events/s", 1, less),
        figure("due to handler, median", "ms", 2, slower),
        figure("a claim, median", "ms", 3, slower),
    ]


def _line(curve: list[_Bucket], at: int) -> Points:
    return [(bucket.at_s, bucket[at]) for bucket in curve]


_Probe = Callable[[Connection[Any]], Callable[[], object]]  # returns the function to time
_Kind = Callable[[str, Notebook], Any]  # a context manager that yields the sender and the probe


def _measure(dsn: str, duration_s: float, per_s: int, kind: _Kind) -> list[_Bucket]:
    total = int(duration_s * per_s)
    with notebooks() as (sent, arrived), notebooks() as (began, ended):
        with kind(dsn, arrived) as (send, probe), _held_snapshot(dsn):
            pause_s = duration_s / BUCKETS / PROBES_PER_BUCKET
            with crew([partial(_probe, dsn, probe, pause_s, began, ended)]) as probing:
                due = send_all(dsn, total, per_s, send, sent, give_up=True)
                with suppress(TimeoutError):  # the curve shows the events that arrived
                    wait_for_all(arrived, len(due))
                probing.stop()
        claims = {n: (began.read()[n], at) for n, at in ended.read().items()}
        moments = list(claims.values())
        return list(_buckets(due, sent.read(), arrived.read(), moments, duration_s))


def _buckets(
    due: Times,
    sent: Times,
    arrived: Times,
    claims: list[tuple[int, int]],
    duration_s: float,
) -> Iterator[_Bucket]:
    """Cut the time into equal parts; a part without a value takes that of the part before.

    A latency belongs to the part in which the event arrived, so the curve shows a growing backlog.
    """
    start_ns = min(due.values())
    part_ns = duration_s * 1e9 / BUCKETS
    claim_ms = latency_ms = 0.0
    for number in range(BUCKETS):
        low, high = start_ns + number * part_ns, start_ns + (number + 1) * part_ns
        waits = [(at - due[n]) / 1e6 for n, at in arrived.items() if low <= at < high]
        took = [(end - begin) / 1e6 for begin, end in claims if low <= begin < high]
        claim_ms = median(took) if took else claim_ms
        latency_ms = median(waits) if waits else latency_ms
        yield _Bucket(
            at_s=(high - start_ns) / 1e9,
            published=sum(low <= at < high for at in sent.values()) / part_ns * 1e9,
            latency_ms=latency_ms,
            claim_ms=claim_ms,
        )


@contextmanager
def _held_snapshot(dsn: str) -> Iterator[None]:
    with psycopg.connect(dsn) as conn:
        conn.isolation_level = IsolationLevel.REPEATABLE_READ
        conn.execute(query("hold_snapshot"))
        yield


def _probe(
    dsn: str, probe: _Probe, pause_s: float, began: Notebook, ended: Notebook, cue: Cue
) -> int:
    """Time a claim, again and again, and roll it back."""
    probes = 0
    with psycopg.connect(dsn) as conn:
        cue.begin()
        while cue.going():
            began_s = monotonic()
            claim = probe(conn)
            began.write(probes)
            claim()
            ended.write(probes)
            conn.rollback()
            probes += 1
            cue.rest(max(0.0, pause_s - (monotonic() - began_s)))
    return probes


@contextmanager
def _ours(dsn: str, arrived: Notebook) -> Iterator[tuple[Send, _Probe]]:
    @gapless.handler(topic="outbox", group=GROUP)
    def record(unit: Unit, _: Connection[Any]) -> None:
        for event in unit:
            arrived.write(event.payload["n"])

    def send(conn: Connection[Any], n: int) -> None:
        gapless.publish(conn, "outbox", {"n": n}, key=str(n))

    with supervised(dsn, record, total_partitions=PARTITIONS):
        with psycopg.connect(dsn) as conn:
            fence = conn.execute(query("fence"), {"group_id": GROUP}).fetchone()
        assert fence is not None
        params = {"group_id": GROUP, "epoch": fence[0], "token": fence[1]}

        def probe(conn: Connection[Any]) -> Callable[[], object]:
            place = conn.execute(query("place"), params).fetchone()  # an owner would know it
            assert place is not None
            hints = {"place": place[0]}
            return lambda: conn.execute(query("probe_claim"), {**params, **hints}).fetchall()

        yield send, probe


@contextmanager
def _rival(dsn: str, arrived: Notebook) -> Iterator[tuple[Send, _Probe]]:
    def see(rows: counters.Rows) -> None:
        for _, payload, _ in rows:
            arrived.write(json.loads(payload)["n"])

    def send(conn: Connection[Any], n: int) -> None:
        counters.write(conn, n % PARTITIONS, [b'{"n":%d}' % n])

    counters.create(dsn, PARTITIONS)
    with psycopg.connect(dsn) as conn:
        conn.execute(query("counters_join"), {"groups": [GROUP]})
    # With rests: without, eight pollers would leave the writers no CPU.
    jobs = [counters.poller(dsn, GROUP, n, 100, see, pause_s=0.01) for n in range(PARTITIONS)]
    with crew(jobs) as pollers:
        yield send, lambda conn: partial(counters.claim, conn, GROUP, 0, 100)
        pollers.stop()
