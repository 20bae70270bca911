"""Publishing: 16 clients, one 1 KB event a commit, on a fast disk and with slow commits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import psycopg

from benchmarks import counters
from benchmarks.cost import Cost, Meter, cost_figures
from benchmarks.drain import noop
from benchmarks.figure import Figure, Target, alternate, compared
from benchmarks.fill import sequence_all
from benchmarks.pgbench import transactions_per_s
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from benchmarks.supervised import few_workers, supervised, wait_for
from benchmarks.tailed import tailed
from gapless import handler
from gapless.consume.user.handler import Handler
from gapless.db.connect import connect
from gapless.log.sequence import create_chunks
from gapless.log.topics import ensure_topic

CLIENTS = 16
PARTITIONS = 8
PAYLOAD_BYTES = 1000
SLOW_COMMIT_MS = 2.0

PLAIN = "plain INSERT, no trigger"
TAILED = "plain INSERT, somebody reads"
CLASSIC = "one counter row + NOTIFY"
COUNTERS = counters.NAME
AWAKE = "sequenced"
CONSUMING = f"{PARTITIONS} workers"
SHARING = f"{PARTITIONS} partitions, auto"
BOUND = "publishing and offsets alone cost as much as the rival: 0.9 to 1.1 if workers cost nothing"


class _Rates(NamedTuple):
    """Events per second: published, and handled during that time; the cost of an event.

    The cost of an event includes its offset and its handling, if there is any.
    """

    published: float
    handled: float
    cost: Cost


_Results = Mapping[str, tuple[_Rates, ...]]

idle = handler(topic="elsewhere", group="awake")(noop)
consuming = handler(topic="outbox", group="consuming", batch_size=1000)(noop)


def run(setup: Setup) -> list[Figure]:
    """Measure with the disk as it is, then with slow commits."""
    rivals = [PLAIN, CLASSIC, COUNTERS, AWAKE, CONSUMING]
    fast = _measure(
        setup,
        setup.commit_delay_ms,
        [PLAIN, AWAKE] if setup.size == "tiny" else [TAILED, *rivals, SHARING],
        setup.rounds,
    )
    figures = _compared(fast, "batch 1", 0.8, consuming=1.1)
    if TAILED in fast:
        figures += [
            _published(fast, "batch 1", AWAKE, TAILED),
            _published(fast, "batch 1", TAILED, PLAIN),
        ]
    if setup.size == "tiny":
        return figures
    slow_ms = setup.commit_delay_ms or SLOW_COMMIT_MS
    slow = _measure(setup, slow_ms, setup.pick([], rivals[:-1], rivals), 2)
    return figures + _compared(slow, f"batch 1, commit + {slow_ms:g} ms", 0.9, classic=8, counter=2)


def _compared(
    results: _Results,
    what: str,
    plain: float,
    *,
    classic: float | None = None,
    counter: float | None = None,
    consuming: float | None = None,
) -> list[Figure]:
    """Return the figures of all runs; targets bound the ratios to the rivals."""
    bounds = {PLAIN: plain, CLASSIC: classic, COUNTERS: counter}
    figures = [
        _published(results, what, AWAKE, rival, bound)
        for rival, bound in bounds.items()
        if rival in results
    ]
    figures += _costs(results, what, AWAKE, PLAIN)
    if CONSUMING in results:
        figures += [
            *(_published(results, what, CONSUMING, rival) for rival in (PLAIN, CLASSIC)),
            _handled(results, what),
        ]
    for form in (CONSUMING, SHARING):
        if form in results:
            rate = _published(results, what, form, COUNTERS, consuming)
            rate = replace(rate, bound=BOUND if rate.target else "")
            figures += [rate, *_costs(results, what, form, COUNTERS)]
    return figures


def _published(
    results: _Results, what: str, ours: str, against: str, at_least: float | None = None
) -> Figure:
    target = None if at_least is None else Target("ratio", at_least=at_least)
    sides = results[ours], results[against], against
    return compared(f"{what}: {ours}", "events/s", attrgetter("published"), sides, target)


def _handled(results: _Results, what: str) -> Figure:
    return Figure(
        what=f"{what}: handled meanwhile",
        unit="events/s",
        ours=tuple(rates.handled for rates in results[CONSUMING]),
        baseline=tuple(rates.published for rates in results[CONSUMING]),
        against="published",
    )


def _costs(results: _Results, what: str, ours: str, against: str) -> list[Figure]:
    return cost_figures(
        f"{what}: {ours}",
        [rates.cost for rates in results[ours]],
        [rates.cost for rates in results[against]],
        against,
    )


def _measure(setup: Setup, commit_delay_ms: float, names: list[str], rounds: int) -> _Results:
    with setup.database("publish", commit_delay_ms=commit_delay_ms) as dsn:
        with psycopg.connect(dsn) as conn:
            conn.execute(baseline("plain"))
            conn.execute(baseline("classic"))
        counters.create(dsn, PARTITIONS)
        with connect(dsn, role="bench") as conn:
            ensure_topic(conn, "outbox", partitions=PARTITIONS)
            create_chunks(conn)
        load = _Load(dsn, duration_s=setup.pick(1, 1, 2))
        runs = {
            PLAIN: partial(load.run, "plain"),
            TAILED: load.run_tailed,
            CLASSIC: partial(load.run, "classic"),
            COUNTERS: partial(load.run, "counters", range(PARTITIONS)),
            AWAKE: partial(load.run_supervised, idle),
            CONSUMING: partial(load.run_supervised, consuming),
            SHARING: partial(load.run_supervised, consuming, auto=True),
        }
        if setup.size != "tiny":
            load.warm_up()
        return alternate(rounds, {name: runs[name] for name in names})


class _Load:
    """The same load, beside different readers."""

    def __init__(self, dsn: str, duration_s: int) -> None:
        self._dsn = dsn
        self._duration_s = duration_s

    def warm_up(self) -> None:
        """Make the server read its programs and catalogues, and grow its first files."""
        for script, partitions in (("plain", ()), ("counters", range(PARTITIONS)), ("gapless", ())):
            self._publish(script, partitions, duration_s=1)
        sequence_all(self._dsn)

    def run(self, script: str, partitions: range | tuple[int, ...] = ()) -> _Rates:
        """Publish without readers; give the offsets afterwards, to prepare the next run."""
        meter = Meter(self._dsn)
        published = self._publish(script, partitions)
        cost = meter.of(published * self._duration_s)
        sequence_all(self._dsn)
        return _Rates(published, 0.0, cost)

    def run_tailed(self) -> _Rates:
        """Publish while another session only reads the published events."""
        with tailed(self._dsn):
            return self.run("plain")

    def run_supervised(self, served: Handler, *, auto: bool = False) -> _Rates:
        """Publish beside a supervisor; wait until the events are handled, if it has a handler."""
        settings = few_workers(auto=auto)
        with supervised(self._dsn, served, total_partitions=PARTITIONS, **settings):
            self._wait_for_rest(served)
            meter = Meter(self._dsn)
            before = self._progress(served)
            published = self._publish("gapless")
            handled = (self._progress(served) - before) / self._duration_s
            self._wait_for_rest(served)
            cost = meter.of(published * self._duration_s)
        return _Rates(published, handled, cost)

    def _wait_for_rest(self, served: Handler) -> None:
        wait_for(self._dsn, "asleep", bool)
        wait_for(self._dsn, "lag", lambda lag: lag == 0, group_id=served.group)

    def _publish(
        self,
        script: str,
        partitions: range | tuple[int, ...] = (),
        duration_s: int | None = None,
    ) -> float:
        return transactions_per_s(
            self._dsn,
            script,
            clients=CLIENTS,
            duration_s=duration_s or self._duration_s,
            payload_bytes=PAYLOAD_BYTES,
            partitions=partitions,
        )

    def _progress(self, served: Handler) -> int:
        with psycopg.connect(self._dsn) as conn:
            row = conn.execute(query("progress"), {"group_id": served.group}).fetchone()
        assert row is not None
        return int(row[0])
