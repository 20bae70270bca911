"""Idle: the cost of partitions without events, against 8 pollers, with and without a rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from time import sleep
from typing import NamedTuple

import psycopg

from benchmarks import counters
from benchmarks.cpu import CpuMeter
from benchmarks.crew import Job, crew
from benchmarks.drain import noop
from benchmarks.figure import Figure, Target, alternate, compared
from benchmarks.queries import query
from benchmarks.server import Setup, settings
from benchmarks.supervised import FORMS, few_workers, supervised
from gapless import handler

POLLERS = 8  # and the same number of partitions
MANY = 64
CPU_MOST = {POLLERS: Target("value", at_most=2), MANY: Target("value", at_most=4)}
SPARE_SESSIONS = 50
NOBODY = "nobody connected"
PUBLISHED = "counters as published, a rest of 10 ms"

idle = handler(topic="outbox", group="idle")(noop)


class _Counts(NamedTuple):
    xids: int
    wal_bytes: int
    transactions: int
    beats: int


class _Activity(NamedTuple):
    """The activity in a second. cpu_percent: of one core, server and clients."""

    xids: float
    beats: float
    wal_bytes: float
    transactions: float
    cpu_percent: float | None


def run(setup: Setup) -> list[Figure]:
    """Watch the server's counters, without any reader, with pollers, and with the supervisor.

    Autovacuum takes up to twenty xids a minute by itself; it is off, unless the server was given
    by the user.
    """
    # Workers look for themselves every 30 s: a shorter window may contain no such look.
    ours_s, others_s = setup.pick((1, 0.5), (31, 1.5), (31, 1.5))
    settle_s = setup.pick(0.1, 2, 2)
    pollers = {
        counters.polled(rest_ms): partial(counters.good_poller, rest_s=rest_ms / 1000)
        for rest_ms in counters.RESTS_MS
    }
    pollers[PUBLISHED] = partial(counters.poller, pause_s=0.01)
    with setup.database("idle") as dsn, without_autovacuum(setup):
        counters.create(dsn, POLLERS)
        _watch_supervised(dsn, 0, settle_s)  # the first-time work of a new database is done here
        results = alternate(
            1,
            {
                NOBODY: partial(watch, dsn, others_s),
                **{
                    name: partial(_watch_polled, dsn, others_s, poller)
                    for name, poller in pollers.items()
                },
                **{
                    form: partial(_watch_supervised, dsn, ours_s, settle_s, auto=auto)
                    for form, auto in FORMS.items()
                },
            },
        )
    figures = [each for form in FORMS for each in _figures(results, form, list(pollers))]
    if setup.size != "tiny":
        figures += _many(setup, ours_s, settle_s)
    return figures


def _many(setup: Setup, duration_s: float, settle_s: float) -> list[Figure]:
    """Watch a supervisor of many partitions, in each form once: nothing else is compared."""
    if int(settings(setup.dsn)["max_connections"]) < MANY + SPARE_SESSIONS:
        return []
    with setup.database("idle") as dsn, without_autovacuum(setup):
        results = {
            form: _watch_supervised(dsn, duration_s, settle_s, MANY, auto=auto)
            for form, auto in FORMS.items()
        }
    return [
        Figure(
            what=_what(form, MANY, what),
            unit=unit,
            ours=() if value is None else (value,),
            target=CPU_MOST[MANY] if what == "CPU" else None,
        )
        for form, each in results.items()
        for what, unit, value in (
            ("CPU", "% of a core", each.cpu_percent),
            ("transactions", "/s", each.transactions),
        )
    ]


def _what(form: str, partitions: int, what: str) -> str:
    return f"{partitions} partitions{form.removeprefix('ours')}: {what}"


def _figures(
    results: dict[str, tuple[_Activity, ...]], form: str, pollers: list[str]
) -> list[Figure]:
    def figure(
        what: str,
        unit: str,
        value: Callable[[_Activity], float | None],
        against: str = NOBODY,
        target: Target | None = None,
    ) -> Figure:
        sides = results[form], results[against], against
        return compared(_what(form, POLLERS, what), unit, value, sides, target)

    cpu, wal = attrgetter("cpu_percent"), attrgetter("wal_bytes")
    usual, no_more = counters.polled(10), Target("ratio", at_most=1)
    figures = [
        figure("CPU", "% of a core", cpu, target=CPU_MOST[POLLERS]),
        *(
            figure("CPU", "% of a core", cpu, name, no_more if name == usual else None)
            for name in pollers
        ),
    ]
    if FORMS[form]:
        return figures
    return [
        *figures,
        figure("WAL", "bytes/s", wal),
        figure("WAL", "bytes/s", wal, usual),
        figure("WAL", "bytes/s", wal, PUBLISHED, no_more),
        figure(
            "xids but heartbeats", "/s", attrgetter("xids"), NOBODY, Target("value", at_most=0.1)
        ),
        figure("heartbeats", "/s", attrgetter("beats")),
        figure("transactions", "/s", attrgetter("transactions")),
        figure("transactions", "/s", attrgetter("transactions"), usual),
    ]


@contextmanager
def without_autovacuum(setup: Setup) -> Iterator[None]:
    """Switch autovacuum off, unless the server was given by the user."""
    if not setup.is_own:
        yield
        return
    with psycopg.connect(setup.dsn, autocommit=True) as conn:
        conn.execute(query("autovacuum_off"))
        conn.execute(query("reload"))
        try:
            yield
        finally:
            conn.execute(query("autovacuum_reset"))
            conn.execute(query("reload"))


def _watch_supervised(
    dsn: str, duration_s: float, settle_s: float, partitions: int = POLLERS, *, auto: bool = False
) -> _Activity:
    with supervised(dsn, idle, total_partitions=partitions, **few_workers(auto=auto)):
        sleep(settle_s)
        return watch(dsn, duration_s)


def _watch_polled(dsn: str, duration_s: float, poller: Callable[..., Job]) -> _Activity:
    with psycopg.connect(dsn) as conn:
        conn.execute(query("counters_join"), {"groups": ["idle"]})
    with crew([poller(dsn, "idle", n, 100) for n in range(POLLERS)]) as pollers:
        activity = watch(dsn, duration_s)
        pollers.stop()
    return activity


def watch(dsn: str, duration_s: float) -> _Activity:
    """Return the activity in a second, on average over duration_s."""
    before, meter = _counts(dsn), CpuMeter(dsn)
    sleep(duration_s)
    took_s = max(duration_s, 1e-3)
    cpu_us = meter.used_us(took_s)
    counts = _Counts(*(b - a for a, b in zip(before, _counts(dsn), strict=True)))
    return _Activity(
        xids=(counts.xids - counts.beats) / took_s,
        beats=counts.beats / took_s,
        wal_bytes=counts.wal_bytes / took_s,
        transactions=counts.transactions / took_s,
        cpu_percent=None if cpu_us is None else cpu_us / 1e4,
    )


def _counts(dsn: str) -> _Counts:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(query("activity")).fetchone()
    assert row is not None
    return _Counts(*row)
