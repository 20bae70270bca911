"""The problems of a document: the age of each where the look knows it, and the command to type."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gapless.features.scheduled.section import Later
from gapless.status import to_document
from gapless.status.snapshot import HeldLog, Pending, Snapshot, Standing
from gapless.status.strangers import Obstacle, Unrouted
from support.look import NOON, look, presence, standing

MINUTE = timedelta(minutes=1)


def _beside(row: object) -> Snapshot:
    return replace(look(), beside={type(row): (row,)})


def _obstacle(kind: str, since_s: float) -> Snapshot:
    found = Obstacle(kind=kind, name="x", since_s=since_s, problem="it blocks", remedy="end it")
    return replace(look(), obstacles=(found,))


def _lapsed(workers: int) -> Standing:
    return standing(0, mode="queue", workers=workers, lapsed=2, lapsed_ts=NOON - MINUTE)


def _open(program: str) -> Snapshot:
    """Return a look at a program's transaction that has been open for 90 seconds."""
    shot = look([standing(0)])
    server = replace(shot.server, oldest_transaction=program, oldest_transaction_s=90.0)
    return replace(shot, server=server)


@pytest.mark.parametrize(
    ("shot", "since_s", "command"),
    [
        (
            replace(look(sequencer_pid=None), pending=(Pending(topic="t", events=3, oldest_s=9),)),
            9,
            "gapless run",
        ),
        (
            look([
                standing(0, error="a", error_ts=NOON - MINUTE),
                standing(1, error="b", error_ts=NOON - 2 * MINUTE),
                standing(2, group_id="other", lag=0),
            ]),
            120,
            "gapless doctor",
        ),
        (look([standing(0, error="no worker is there to say when")]), None, "gapless doctor"),
        (look([standing(0, None, lag=70), standing(1, None, lag=30)]), 7, "gapless run"),
        (look([standing(0, None)], members=[presence("host-c")]), None, "gapless run"),
        (look([standing(0, paused_ts=NOON - MINUTE)]), 60, "gapless resume billing"),
        (
            look([
                standing(0, waiting=1, aside_ts=NOON - MINUTE),
                standing(1, dead_letters=1, aside_ts=NOON - 3 * MINUTE),
                standing(2),
            ]),
            180,
            "gapless dlq list --group billing",
        ),
        (look([_lapsed(workers=2)]), 60, ""),
        (look([_lapsed(workers=0)]), 60, "gapless run"),
        (replace(look(), held=(HeldLog(reason="it is kept", since_s=6.0),)), 6, "gapless retention"),
        (look(members=[presence("host-a", beat_s=99.0)]), 99, ""),
        (
            look(members=[
                presence("host-a", version="1.9", up_s=900.0),
                presence("host-b", version="1.10", up_s=60.0),
                presence("host-c", version="1.10", up_s=70.0),
            ]),
            70,
            "",
        ),
        (_open("gapless/worker billing/orders/0"), 90, "gapless groups work billing/orders"),
        (_open("gapless/queue worker billing"), 90, "gapless groups work billing/orders"),
        (_open("psql"), 90, ""),
        (_obstacle("client", 30.0), 30, ""),
        (_obstacle("clock", 30.0), None, ""),
        (_obstacle("client", 0.0), None, ""),
        (
            replace(look(), unrouted=(Unrouted(topic_id=77, events=1, since_s=4.0),)),
            4,
            "gapless topics adopt 77 NAME",
        ),
        (_beside(Later(late_s=8.0)), 8, "gapless doctor"),
    ],
)  # fmt: skip
def test_a_problem_has_an_age_and_a_command(
    shot: Snapshot, since_s: float | None, command: str
) -> None:
    (found,) = to_document(shot)["problems"]
    assert (found["since_s"], found["command"]) == (since_s, command)
    assert command in found["remedy"]


def test_a_stopped_partition_is_said_to_be_so_once() -> None:
    (found,) = to_document(look([standing(0, error="stopped: a hole")]))["problems"]
    assert found["problem"] == "billing/orders: 1 partition stopped: a hole"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("retrying: blocked at billing/orders/0@17: KeyError: 'total'", "or seek past the unit"),
        ("retrying: webhook shop: requests failed in a row", "tried again by itself"),
        ("stopped: a hole", "gapless doctor says what helps"),
    ],
)
def test_the_remedy_of_a_stopped_partition_fits_its_error(error: str, remedy: str) -> None:
    (found,) = to_document(look([standing(0, error=error)]))["problems"]
    assert remedy in found["remedy"]


@pytest.mark.parametrize(
    "change",
    [
        {"paused_ts": NOON, "pause": "ann: lunch"},
        {"error": "retrying: x"},
        {"mode": "queue", "workers": 1},
    ],
)
def test_a_problem_says_how_much_waits(change: dict[str, Any]) -> None:
    shot = replace(_open("gapless/queue worker billing"), partitions=[])
    rows = [standing(0, lag=30, **change), standing(1, lag=4, **change)]
    found = to_document(replace(shot, partitions=rows))["problems"]
    said = [each["problem"] for each in found]
    assert any(each.startswith("billing/orders: 34 behind, ") for each in said), said


def test_a_sequencer_that_does_nothing_is_a_problem_while_its_session_lives() -> None:
    pending = (Pending(topic="t", events=50, oldest_s=88.0),)
    shot = look()
    rests = replace(shot.sequencer, pid=7245, ran_ts=NOON - 2 * MINUTE)
    (found,) = to_document(replace(shot, sequencer=rests, pending=pending))["problems"]
    assert found["problem"] == (
        "50 events wait without an offset, for 88 s, and the sequencer, session 7245, does nothing"
    )
    assert found["is_bad"]
    assert found["command"] == "select pg_terminate_backend(7245)"
    works = replace(rests, ran_ts=NOON)
    assert not to_document(replace(shot, sequencer=works, pending=pending))["problems"]


@pytest.mark.parametrize(
    ("names", "remedy"),
    [(["host-a"], "start another gapless run"), (["host-a", "host-b"], "the others take")],
)
def test_the_remedy_of_a_silent_member_knows_whether_there_are_others(
    names: list[str], remedy: str
) -> None:
    ages = {"host-a": 99.0, "host-b": 1.0}
    shot = look([standing(0)], members=[presence(name, beat_s=ages[name]) for name in names])
    (found,) = (each for each in to_document(shot)["problems"] if "is silent" in each["problem"])
    assert found["remedy"].startswith(remedy)
