"""Every benchmark runs, and every figure of ours has a value. Tiny sizes: nothing is measured."""

import pytest
from benchmarks import (
    attach,
    compaction,
    conditions,
    consume,
    counters,
    idle,
    jobs,
    latency,
    queue_held,
    queue_ways,
    relay,
)
from benchmarks.__main__ import NAMES, benchmark
from benchmarks.rivals.brokers import BROKERS
from benchmarks.server import Setup, pgbench_path

from gapless.errors import UsageError

pytestmark = [
    pytest.mark.long,
    # What the rivals' libraries warn of is not ours to mend.
    pytest.mark.filterwarnings("ignore:::procrastinate", "ignore:::pgqueuer"),
]

NOT_TINY = {"members", "spark"}  # 64 workers; a JVM, which tests/features/spark has
NEED_PGBENCH = {"publish", "hot"}
PICTURES = {
    "held": ["held-curves"],
    "queue": ["queue-held"],
    "scale": ["scale-no-op", "scale-waiting"],
}


# Who is compared in these has to be among their rows: as well as it can be written, and as published.
RIVALS = {
    "jobs": {jobs.HANDLED, jobs.ALONE, jobs.PUBLISHED, jobs.INDEXED, jobs.STATUS, jobs.DECODED},
    "queue": {queue_ways.DELETED, queue_ways.MARKED, queue_held.START},
    "consume": {*consume.RIVALS},
    "conditions": {conditions.IN_JSONPATH, conditions.NONE},
    "compaction": {compaction.UPSERT},
    "attach": {attach.AT_ONCE, attach.NOTHING},
    "gateway": {each.name for each in BROKERS if each.missing is None},
    "groups": {counters.NAME, counters.WELL, counters.polled(10)},
    "idle": {*map(counters.polled, counters.RESTS_MS), idle.PUBLISHED, idle.NOBODY},
    "latency": {*map(counters.polled, counters.RESTS_MS), relay.NAME, latency.NOTIFY},
}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_TINY])
def test_it_runs(name: str, server_dsn: str, template: str) -> None:
    if name in NEED_PGBENCH:
        try:
            pgbench_path()
        except UsageError as error:
            pytest.skip(str(error))
    setup = Setup(dsn=server_dsn, size="tiny", migrated=template)
    figures = benchmark(name)(setup)
    assert figures
    for figure in figures:
        if "CPU" not in figure.what + figure.unit:  # not to be had on every system
            assert figure.ours, figure.what
            # CPU is a difference: of what takes next to none it may fall below zero.
            assert all(value >= 0 for value in (*figure.ours, *figure.baseline)), figure
        if figure.unit == "events/s":
            assert all(figure.ours), figure.what
    measured = {figure.against for figure in figures if figure.baseline}
    assert RIVALS.get(name, set()) <= measured
    assert [chart.name for chart in setup.charts] == PICTURES.get(name, [])
    assert all(chart.svg().endswith("</svg>\n") for chart in setup.charts)
