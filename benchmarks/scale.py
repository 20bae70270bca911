"""Scale-up: the same events over 1, 2, 4 and 8 partitions with a worker each.

One handler does nothing: the cores bound it. The other one waits for a millisecond, as for a
remote service: only the number of workers bounds it.
"""

from __future__ import annotations

from functools import partial
from statistics import median
from time import sleep
from typing import Any

from psycopg import Connection

import gapless
from benchmarks.chart import Chart, Panel
from benchmarks.drain import Drained, drain, new_group, noop
from benchmarks.figure import Figure, alternate
from benchmarks.fill import fill_outbox
from benchmarks.server import Setup
from gapless.consume.unit import Unit
from gapless.db.connect import connect
from gapless.log.topics import ensure_topic

PARTITIONS = (1, 2, 4, 8)
UNIT_EVENTS = 10
PAYLOAD_BYTES = 300
WAIT_S = 0.001
ONE = "one partition"


def run(setup: Setup) -> list[Figure]:
    """Read a topic of each width to its end; draw the curves."""
    counts = setup.pick((1, 2), PARTITIONS, PARTITIONS)
    events = {
        "no-op": setup.pick(1_000, 20_000, 40_000),
        "waiting": setup.pick(500, 3_000, 5_000),
    }
    with setup.database("scale") as dsn, connect(dsn, role="bench") as conn:
        for what, number in events.items():
            for partitions in counts:
                topic = ensure_topic(conn, f"{what}-{partitions}", partitions=partitions)
                fill_outbox(
                    dsn,
                    topic.topic_id,
                    events=number,
                    payload_bytes=PAYLOAD_BYTES,
                    events_a_commit=UNIT_EVENTS,
                )
        figures: list[Figure] = []
        for what, number in events.items():
            runs = {str(n): partial(_drain, dsn, what, n, number) for n in counts}
            figures += _figures(setup, what, alternate(1, runs))
    return figures


def _drain(dsn: str, what: str, partitions: int, events: int) -> Drained:
    decorate = gapless.handler(
        topic=f"{what}-{partitions}", group=new_group("scale"), batch_size=100
    )
    handler = decorate(noop if what == "no-op" else _wait)
    return drain(dsn, [handler], events=events, partitions=partitions)


def _wait(_unit: Unit, _conn: Connection[Any]) -> None:
    sleep(WAIT_S)


def _figures(setup: Setup, what: str, results: dict[str, tuple[Drained, ...]]) -> list[Figure]:
    rates = {name: tuple(each.per_s for each in rounds) for name, rounds in results.items()}
    points = [(float(name), median(values)) for name, values in rates.items()]
    setup.charts.append(
        Chart(
            name=f"scale-{what}",
            x_label="partitions, a worker each",
            panels=[Panel(title=f"events/s, {what} handler", series={"ours": points})],
        )
    )
    (one, *_) = rates.values()
    return [
        Figure(
            what=f"{what} handler, {name} "
            + ("partition and worker" if name == "1" else "partitions and workers"),
            unit="events/s",
            ours=values,
            baseline=one,
            against=ONE,
        )
        for name, values in rates.items()
    ]
