"""gapless.testing.drain() of queue handlers, and the terms by which every driver works."""

from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless.consume.terms import Terms, agree
from gapless.features.queue.drive import QueueDriver
from gapless.features.queue.place import Queue
from gapless.features.replay.plan import replay_terms
from gapless.settings import Settings
from gapless.testing import drain, drained
from gapless.worker.plan import make_plan
from support.programs import queue_app as app
from support.supervisors import Runs

CONFIGURED = Settings(batch_size=77, max_crashes=7, concurrency=9, visibility_s=44, workers=6)


def test_drain_says_what_was_done(runs: Runs) -> None:
    good = runs.publish(count=25)
    bad = runs.publish({"do": "reject"}, {"do": "fail"}, {"do": "commit"})
    done = drain(runs.dsn, app.once)
    assert (done.events, done.units, done.dead) == (28, 28, 3)
    assert runs.done() == dict.fromkeys(good, 1)
    assert set(runs.dead("once")) == set(bad)
    assert drain(runs.dsn, app.once).events == 0


def test_what_is_due_at_once_is_done_as_well(runs: Runs) -> None:
    (number,) = runs.publish({"do": "retry", "after": 0, "times": 3})
    drain(runs.dsn, app.once)
    assert runs.conn.execute("select n, attempt from done").fetchall() == [(number, 4)]


def test_calls_of_an_at_least_once_handler(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSN", runs.dsn)
    numbers = runs.publish(count=12)
    done = drain(runs.dsn, app.outside)
    assert done.events == 12
    assert runs.done() == dict.fromkeys(numbers, 1)


def test_what_a_queues_handler_publishes_knows_its_cause(runs: Runs) -> None:
    """I10: by publish(), and by plain SQL, which is learned; each event is a unit of its own."""

    @gapless.handler(topic="jobs", group="chain", mode="queue")
    def chain(unit: gapless.Unit, conn: Connection[Any]) -> None:
        assert len(unit) == 1
        gapless.publish(conn, "urgent", {"n": 0}, key="a")
        conn.execute("select gapless.publish('urgent', '{}', key => 'b')")

    runs.publish(count=5)
    drain(runs.dsn, chain)
    causes = runs.conn.execute(
        "select cause, count(*) from gapless.outbox_message_t"
        " where topic_id = gapless.topic_id('urgent') group by 1"
    ).fetchall()
    assert len(causes) == 5
    assert {count for _, count in causes} == {2}
    assert all(cause.startswith("chain/jobs/") for cause, _ in causes)


def test_a_deferred_constraint_fails_its_event_alone(runs: Runs) -> None:
    runs.conn.execute("create table once (n int primary key deferrable initially deferred)")

    @gapless.handler(topic="jobs", group="deferred", mode="queue")
    def insert(unit: gapless.Unit, conn: Connection[Any]) -> None:
        (event,) = unit
        conn.execute("insert into once values (%s)", [event.payload.get("as", event.payload["n"])])

    runs.publish(count=5)
    runs.publish({"as": 1}, {})
    done = drain(runs.dsn, insert)
    assert (done.events, done.dead) == (7, 1)
    (kept,) = runs.conn.execute("select count(*) from once").fetchone() or (0,)
    assert kept == 6


def test_the_terms_are_the_same_through_run_replay_and_testing(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    agreed = agree(app.outside, CONFIGURED)
    plan = make_plan(CONFIGURED, runs.dsn, [app.outside])
    assert plan.terms == {("outside", "jobs"): agreed}
    assert [terms for *_, terms in plan.unleased] == [agreed]
    once = agree(app.once, CONFIGURED)
    replayed = replay_terms(app.once, CONFIGURED)
    assert (replayed.batch_size, replayed.group_by) == (once.batch_size, once.group_by)
    driven: list[Terms] = []

    class Watched(QueueDriver):
        def __init__(self, queue: Queue, **more: Any) -> None:
            driven.append(queue.terms)
            super().__init__(queue, **more)

    monkeypatch.setattr(drained, "QueueDriver", Watched)
    drain(runs.dsn, app.outside, settings=CONFIGURED)
    assert driven == [agreed]
