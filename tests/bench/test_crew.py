"""The processes that make load: they begin together, are counted, and none is left behind."""

import math
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from benchmarks.crew import Cue, crew
from benchmarks.openloop import late_ms, notebooks, send_all
from psycopg import Connection


def _until_stopped(cue: Cue) -> int:
    cue.begin()
    while cue.going():
        cue.rest(0.01)
    return 1


def test_all_are_counted() -> None:
    with crew([_until_stopped] * 3) as three:
        three.stop()
    assert three.done == 3
    assert three.took_s > 0


@pytest.mark.parametrize("is_begun", [True, False])
def test_one_that_fails_is_told(is_begun: bool) -> None:
    """At once: those that are ready do not wait for one that never will be."""

    def fail(cue: Cue) -> int:
        if is_begun:
            cue.begin()
        raise ValueError("on purpose")

    with pytest.raises(RuntimeError, match="ended with"), crew([_until_stopped, fail]) as two:
        two.stop()


@pytest.mark.long
def test_what_a_job_did_last_ends_its_time() -> None:
    def linger(cue: Cue) -> int:
        cue.begin()
        cue.did()
        cue.rest(0.5)
        return 1

    began = monotonic()
    with crew([linger]) as one:
        one.join()
    assert one.took_s < monotonic() - began - 0.5


@pytest.mark.long
def test_a_stalled_sender_is_charged_to_the_events_it_delays(dsn: str, tmp_path: Path) -> None:
    """Event 3 takes 300 ms to send; at 100/s those due meanwhile are late by what is left of it."""

    def send(conn: Connection[Any], n: int) -> None:
        if n == 3:
            conn.execute("select pg_sleep(0.3)")

    with notebooks() as (sent, _):
        due = send_all(dsn, 20, 100, send, sent)
        assert sent.count() == 20
        late = late_ms(due, sent.read())
    assert late[3] >= 300
    assert late[13] >= 200 - 1
    assert math.isclose((due[13] - due[3]) / 1e6, 100, abs_tol=0.01)


@pytest.mark.long
def test_who_gives_up_sends_nothing_after_the_last_was_due(dsn: str) -> None:
    def send(conn: Connection[Any], n: int) -> None:
        conn.execute("select pg_sleep(0.2)")

    with notebooks() as (sent, _):
        due = send_all(dsn, 100, 100, send, sent, give_up=True)
        assert 0 < len(due) < 100
        assert set(due) == set(sent.read())
