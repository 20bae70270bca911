"""Latency to the handler, open loop, and its CPU, against LISTEN/NOTIFY, a relay and pollers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection

import gapless
from benchmarks import counters, relay
from benchmarks.claims import Rows
from benchmarks.cost import Cost, Meter, cost_figures
from benchmarks.crew import Cue, Job, crew
from benchmarks.figure import Figure, Target, alternate, compared, quantile
from benchmarks.openloop import Notebook, Send, late_ms, notebooks, send_all, wait_for_all
from benchmarks.queries import baseline, query
from benchmarks.server import Setup
from benchmarks.supervised import FORMS, few_workers, supervised
from gapless.consume.unit import Unit
from gapless.db.listen import listen

PARTITIONS = 4
PAYLOAD = "x" * 300

NOTIFY = "bare LISTEN/NOTIFY"
POLLING = {rest_ms: counters.polled(rest_ms) for rest_ms in counters.RESTS_MS}
USUAL_MS = 10
# Bounds on ratios to the poller with the usual rest, or to the relay, by rate and form.
MOST: dict[int, dict[str, dict[str, float]]] = {
    100: {
        "ours": {"p50 of the relay": 1.5, "p50": 1.0, "p99": 1.0, "cpu": 1.4},
        "ours, auto": {"p50 of the relay": 1.5, "p50": 1.0, "p99": 1.0, "cpu": 1.1},
    },
    1000: {"ours": {"p50": 1.3}, "ours, auto": {"p50": 1.0, "p99": 1.3, "cpu": 1.2}},
}
BOUND = "three transactions an event (sender, offset, claim) where a poller has two"


class _Latency(NamedTuple):
    """p50 and p99 in ms, since the event was due and since its commit returned; its cost."""

    p50: float
    p99: float
    commit_p50: float
    commit_p99: float
    cost: Cost


def run(setup: Setup) -> list[Figure]:
    """Measure each rate, one run of each kind a round, and both forms of ours."""
    warm_up_s, duration_s = setup.pick((0.1, 0.2), (0.3, 1.2), (0.3, 2.2))
    figures: list[Figure] = []
    for per_s, forms in MOST.items():
        with setup.database("latency") as dsn:
            with psycopg.connect(dsn) as conn:
                conn.execute(baseline("notify"))
                conn.execute(baseline("relay"))
            counters.create(dsn, PARTITIONS)
            kinds = {
                NOTIFY: _notified,
                **{
                    name: partial(_polled, rest_s=rest_ms / 1000)
                    for rest_ms, name in POLLING.items()
                },
                relay.NAME: partial(relay.relayed, pad=PAYLOAD, readers=PARTITIONS),
                **{form: partial(_ours, auto=auto) for form, auto in FORMS.items()},
            }
            results = alternate(
                setup.pick(1, 1, 2),
                {
                    name: partial(_measure, dsn, per_s, (warm_up_s, duration_s), kind)
                    for name, kind in kinds.items()
                },
            )
        for form, most in forms.items():
            figures += _figures(results, form, f"{per_s}/s{form.removeprefix('ours')}", most)
    return figures


def _figures(
    results: dict[str, tuple[_Latency, ...]], form: str, what: str, most: Mapping[str, float]
) -> list[Figure]:
    def figure(
        name: str, value: Callable[[_Latency], float], against: str, target: Target | None = None
    ) -> Figure:
        sides = results[form], results[against], against
        return compared(f"{what}, {name}", "ms", value, sides, target)

    costs = {name: [each.cost for each in rounds] for name, rounds in results.items()}
    p50, p99 = attrgetter("p50"), attrgetter("p99")
    commit_p50, commit_p99 = attrgetter("commit_p50"), attrgetter("commit_p99")
    targets = {name: Target("ratio", at_most=bound) for name, bound in most.items()}
    figures = [
        figure("commit to handler: p50", commit_p50, relay.NAME, targets.get("p50 of the relay")),
        figure("commit to handler: p99", commit_p99, relay.NAME, Target("value", at_most=15)),
        *cost_figures(what, costs[form], costs[relay.NAME], relay.NAME)[:1],
    ]
    usual, no_more = counters.polled(USUAL_MS), Target("ratio", at_most=1)
    cpu, wal = cost_figures(what, costs[form], costs[usual], usual)
    figures += [
        figure("commit to handler: p50", commit_p50, usual, targets.get("p50")),
        figure("commit to handler: p99", commit_p99, usual, targets.get("p99")),
        replace(cpu, target=targets.get("cpu"), bound=BOUND),
    ]
    if FORMS[form]:
        return figures
    figures += [
        wal,
        figure("due to handler: p50", p50, NOTIFY),
        figure("due to handler: p99", p99, NOTIFY),
        figure("due to handler: p50", p50, POLLING[0], no_more),
        figure("due to handler: p99", p99, POLLING[0], no_more),
    ]
    for name in POLLING.values():
        if name != usual:
            figures += [
                figure("commit to handler: p50", commit_p50, name),
                *cost_figures(what, costs[form], costs[name], name)[:1],
            ]
    return figures


_Kind = Callable[[str, Notebook], Any]  # a context manager that yields the sender


def _measure(dsn: str, per_s: int, times_s: tuple[float, float], kind: _Kind) -> _Latency:
    """Send for both times in turn; the first only warms up."""
    warm_up, counted = (int(each * per_s) for each in times_s)
    total = warm_up + counted
    with notebooks() as (sent, arrived), kind(dsn, arrived) as send:
        meter = Meter(dsn)
        due = send_all(dsn, total, per_s, send, sent)
        wait_for_all(arrived, total)
        cost = meter.of(total)
        came = arrived.read()
        waited_ms = late_ms(due, came, warm_up)
        # A reader may have it before the sender knows that it has committed.
        since_commit_ms = [max(0.0, each) for each in late_ms(sent.read(), came, warm_up)]
    return _Latency(
        quantile(waited_ms, 0.5),
        quantile(waited_ms, 0.99),
        quantile(since_commit_ms, 0.5),
        quantile(since_commit_ms, 0.99),
        cost,
    )


@contextmanager
def _ours(dsn: str, arrived: Notebook, *, auto: bool) -> Iterator[Send]:
    @gapless.handler(topic="outbox", group="latency")
    def record(unit: Unit, _: Connection[Any]) -> None:
        for event in unit:
            arrived.write(event.payload["n"])

    def send(conn: Connection[Any], n: int) -> None:
        gapless.publish(conn, "outbox", {"n": n, "pad": PAYLOAD}, key=str(n))

    settings = few_workers(auto=auto)
    with supervised(dsn, record, total_partitions=PARTITIONS, **settings):
        yield send


@contextmanager
def _polled(dsn: str, arrived: Notebook, *, rest_s: float) -> Iterator[Send]:
    def see(rows: Rows) -> None:
        for _, payload, _ in rows:
            arrived.write(json.loads(payload)["n"])

    def send(conn: Connection[Any], n: int) -> None:
        payload = json.dumps({"n": n, "pad": PAYLOAD}).encode()
        counters.write(conn, n % PARTITIONS, [payload])

    with psycopg.connect(dsn) as conn:
        conn.execute(query("counters_join"), {"groups": ["latency"]})
        conn.execute(query("counters_skip"), {"groups": ["latency"]})
    jobs = [
        counters.good_poller(dsn, "latency", n, 100, see, rest_s=rest_s) for n in range(PARTITIONS)
    ]
    with crew(jobs) as pollers:
        yield send
        pollers.stop()


@contextmanager
def _notified(dsn: str, arrived: Notebook) -> Iterator[Send]:
    def send(conn: Connection[Any], n: int) -> None:
        payload = json.dumps({"n": n, "pad": PAYLOAD})
        conn.execute(query("notify_publish"), {"payload": payload})

    jobs: list[Job] = [partial(_listen, dsn, arrived)]
    with crew(jobs) as listening:
        yield send
        listening.stop()


def _listen(dsn: str, arrived: Notebook, cue: Cue) -> int:
    heard = 0
    with psycopg.connect(dsn, autocommit=True) as conn:
        listen(conn, "baseline_notify")
        cue.begin()
        while cue.going():
            for notify in conn.notifies(timeout=0.1, stop_after=1):
                arrived.write(json.loads(notify.payload)["n"])
                heard += 1
    return heard
