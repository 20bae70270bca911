"""Other queues, if installed: publish in batches, and drain with one worker process.

Each round lasts at least two seconds, with as many jobs as that takes. It counts the start of a
process, its connection and its work on all sides; on ours, sequencing too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import monotonic

import psycopg

import gapless
from benchmarks.cost import Meter
from benchmarks.crew import Cue, crew
from benchmarks.drain import Drained, decoding, drained_figures, new_group
from benchmarks.figure import Figure, alternate
from benchmarks.fill import fill_outbox
from benchmarks.queries import query
from benchmarks.rivals import NAMES, PAYLOAD, Rival, Work, find
from benchmarks.server import Setup
from benchmarks.supervised import supervised, wait_for
from gapless import NewEvent
from gapless.db.connect import connect
from gapless.log.sequence import create_chunks
from gapless.log.topics import ensure_topic

BATCH = 100
TOPIC = "peers"
OURS = "ours"

_Drain = Callable[[str, int], Drained]  # dsn, events
_Results = dict[str, tuple[Drained, ...]]


def run(setup: Setup) -> list[Figure]:
    """Measure ours and each installed queue; a missing one is a dash."""
    rivals = {name: find(name) for name in NAMES}
    there = {name: rival for name, rival in rivals.items() if rival is not None}
    absent = [f"{name}, which is not installed" for name in rivals if name not in there]
    published = alternate(1, _publishing(setup, there))
    drained = _drained(setup, there)
    figures = [
        figure
        for name in (*there, *absent)
        for figure in _figures(f"publish, batch {BATCH}, from Python", published, name)[:1]
    ]
    for name in (*(name for name in drained if name != OURS), *absent):
        figures += _figures("drain, one worker, payload decoded", drained, name)
    return figures


def _figures(what: str, results: _Results, against: str) -> list[Figure]:
    return drained_figures(what, results[OURS], results.get(against, ()), against)[:2]


# -- rounds that last ----------------------------------------------------------------------------


class Lasting:
    """Rounds of at least a given time: the number of events grows until it is enough, then stays.

    A round that turns out too short is not counted, and only shows how many events it takes.
    """

    def __init__(self, at_least_s: float, events: int) -> None:
        self._at_least_s = at_least_s
        self.events = events

    def round(self, measure: Callable[[int], Drained]) -> Drained:
        while True:
            done = measure(self.events)
            took_s = self.events / done.per_s
            if took_s >= self._at_least_s:
                return done
            more = min(10.0, 1.2 * self._at_least_s / took_s)
            self.events = -(-int(self.events * more) // BATCH) * BATCH


def _lasting(setup: Setup, events: int) -> Lasting:
    return Lasting(setup.pick(0.0, 2.0, 2.0), setup.pick(200, events, events))


# -- publishing ----------------------------------------------------------------------------------


def _publishing(setup: Setup, rivals: dict[str, Rival]) -> dict[str, Callable[[], Drained]]:
    creates = {name: (rival.create, rival.publish) for name, rival in rivals.items()}
    creates[OURS] = (_create, _publish)
    return {
        name: partial(_lasting(setup, 50_000).round, partial(_published, setup, create, publish))
        for name, (create, publish) in creates.items()
    }


def _published(setup: Setup, create: Callable[[str], None], publish: Work, events: int) -> Drained:
    with setup.database("peers") as dsn:
        create(dsn)
        return _work(publish, dsn, events)


def _create(dsn: str) -> None:
    with connect(dsn, role="bench") as conn:
        ensure_topic(conn, TOPIC, partitions=1)
        create_chunks(conn)


def _publish(dsn: str, events: int, batch: int, cue: Cue) -> int:
    with psycopg.connect(dsn, autocommit=True) as conn:
        cue.begin()
        for _ in range(events // batch):
            made = [NewEvent(payload=PAYLOAD, key=str(n), event_type="bench") for n in range(batch)]
            gapless.publish(conn, TOPIC, made)
    return events


def _work(work: Work, dsn: str, events: int) -> Drained:
    """Time one process from its start to its last action."""
    meter = Meter(dsn)
    with crew([partial(work, dsn, events, BATCH)]) as worker:
        worker.join()
    assert worker.done == events, f"{worker.done} of {events}"
    return Drained(events / (worker.ready_s + worker.took_s), meter.of(events))


# -- draining ------------------------------------------------------------------------------------


class _Backlog:
    """A database with jobs in it; each round gets a copy."""

    def __init__(self, setup: Setup, name: str, fill: Callable[[str, int], None]) -> None:
        self._setup = setup
        self._name = f"peers_{name}"
        self._fill = fill
        self._events = 0
        self._stack = ExitStack()

    def drained(self, drain: _Drain, events: int) -> Drained:
        if events != self._events:
            self.close()
            dsn = self._stack.enter_context(self._setup.database(self._name))
            self._fill(dsn, events)
            self._events = events
        with self._setup.database("peers_copy", template=self._name) as dsn:
            return drain(dsn, events)

    def close(self) -> None:
        self._stack.close()
        self._events = 0


def _drained(setup: Setup, rivals: dict[str, Rival]) -> _Results:
    with ExitStack() as stack:
        runs: dict[str, Callable[[], Drained]] = {}
        for name, rival in rivals.items():
            fill = partial(_fill_rival, rival)
            for label, work in rival.drains.items():
                backlog = stack.enter_context(_backlog(setup, f"{name}_{len(runs)}", fill))
                lasting = _lasting(setup, 4_000)
                runs[label] = partial(lasting.round, partial(backlog.drained, partial(_work, work)))
        backlog = stack.enter_context(_backlog(setup, OURS, _fill))
        runs[OURS] = partial(_lasting(setup, 120_000).round, partial(backlog.drained, _drain))
        return alternate(1, runs)


@contextmanager
def _backlog(setup: Setup, name: str, fill: Callable[[str, int], None]) -> Iterator[_Backlog]:
    made = _Backlog(setup, name, fill)
    try:
        yield made
    finally:
        made.close()


def _fill_rival(rival: Rival, dsn: str, events: int) -> None:
    rival.create(dsn)
    _work(rival.publish, dsn, events)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(query("vacuum"))


def _fill(dsn: str, events: int) -> None:
    with connect(dsn, role="bench") as conn:
        topic = ensure_topic(conn, TOPIC, partitions=1)
    fill_outbox(dsn, topic.topic_id, events=events, payload_bytes=300, sequenced=False)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(query("vacuum"))


def _drain(dsn: str, events: int) -> Drained:
    """Time everything, from the start of the supervisor to the last event's commit."""
    handler = gapless.handler(topic=TOPIC, group=new_group("peers"), batch_size=BATCH)(decoding)
    meter, began_s = Meter(dsn), monotonic()
    with supervised(dsn, handler, total_partitions=1):
        wait_for(
            dsn,
            "progress",
            lambda done: done == events,
            look_every_s=0.05,
            group_id=handler.group,
        )
        took_s = monotonic() - began_s
        return Drained(events / took_s, meter.of(events))
