"""gapless.testing.drain() of queue handlers, and the terms by which every driver works."""

from typing import Any

import pytest
from psycopg import Connection

import gapless
from gapless.testing import drain
from support.programs import queue_app as app
from support.supervisors import Runs


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
