"""`gapless queue` and what other commands say of queue groups; bad input in one sentence each."""

import json
import subprocess
import sys
from typing import Any

import pytest

import gapless
from gapless import ops
from gapless.errors import RefusedError
from gapless.testing import drain
from support.programs import queue_app as app
from support.supervisors import Runs


def gapless_says(runs: Runs, *words: str) -> tuple[int, str, str]:
    """Run a command; return its exit code and what it printed."""
    ended = subprocess.run(
        [sys.executable, "-m", "gapless", *words, "--dsn", runs.dsn],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return ended.returncode, ended.stdout, ended.stderr


def read(runs: Runs, *words: str) -> Any:
    code, out, err = gapless_says(runs, *words, "--json")
    assert code == 0, err
    return json.loads(out)


@pytest.fixture
def letters(runs: Runs) -> list[int]:
    """Three events of a queue group that nobody works on."""
    ops.create_group(runs.conn, "letters", "jobs", mode="queue")
    numbers = runs.publish(count=3)
    drain(runs.dsn, app.once)  # it sequences
    return numbers


@pytest.mark.long
def test_take_and_what_may_become_of_it(runs: Runs, letters: list[int]) -> None:
    taken = read(runs, "queue", "take", "letters/jobs", "--max", "3")
    assert 1 <= len(taken) <= 3
    while len(taken) < 3:
        taken += read(runs, "queue", "take", "letters/jobs", "--max", "3")
    assert sorted(each["payload"]["n"] for each in taken) == letters
    assert {each["attempt"] for each in taken} == {1}
    words = [["letters/jobs", t["receipt"], "--offset", str(t["offset"])] for t in taken]
    assert "until" in read(runs, "queue", "extend", "letters/jobs", taken[0]["receipt"])
    assert read(runs, "queue", "ack", *words[0]) == {"acknowledged": 1}
    assert read(runs, "queue", "release", *words[1], "--delay", "60") == {"released": 1}
    assert read(runs, "queue", "reject", *words[2], "bad address") == {"rejected": 1}
    state = read(runs, "queue", "state", "letters")
    totals = {key: sum(row[key] for row in state) for key in ("open", "in_hand", "waiting", "dead")}
    assert totals == {"open": 0, "in_hand": 0, "waiting": 1, "dead": 1}
    failed = read(runs, "queue", "peek", "letters/jobs", "--state", "FAILED")
    assert [job["offset"] for job in failed] == [taken[2]["offset"]]
    code, _, err = gapless_says(runs, "queue", "ack", *words[0])
    assert code == 2
    assert err.count("\n") == 1
    (unit,) = ops.list_units(runs.conn, ops.DlqFilter(group="letters", states=["dead"]))
    assert "bad address" in unit.error


@pytest.mark.long
def test_groups_and_status_know_queues(runs: Runs, letters: list[int]) -> None:
    (group,) = [each for each in read(runs, "groups") if each["group"] == "letters"]
    assert (group["mode"], group["state"], group["workers"]) == ("queue", "Empty", 0)
    document = read(runs, "status")
    (standing,) = [each for each in document["groups"] if each["group"] == "letters"]
    assert (standing["mode"], standing["open"], standing["workers"]) == ("queue", 3, 0)
    assert {(row["state"], row["open"] > 0) for row in document["partitions"]} == {
        ("unserved", True),
        ("shared", False),
    }
    run = runs.start("once", workers=3)
    runs.until_workers(run, 3)
    runs.until_done(runs.publish(count=4))
    (served,) = [each for each in read(runs, "groups") if each["group"] == "once"]
    assert (served["mode"], served["state"], served["members"]) == ("queue", "Stable", 1)
    assert served["workers"] == 3
    rows = [each for each in read(runs, "status")["partitions"] if each["group"] == "once"]
    assert {(row["state"], row["workers"]) for row in rows} == {("shared", 3)}
    code, out, _ = gapless_says(runs, "status")
    assert code == 0
    assert "3 workers" in out


@pytest.mark.long
def test_a_replay_beside_the_group(runs: Runs) -> None:
    numbers = runs.publish(count=6)
    drain(runs.dsn, app.once)
    found = f"{app.__file__}:once"
    code, out, err = gapless_says(runs, "replay", found, "--yes")
    assert code == 0, out + err
    assert runs.done() == dict.fromkeys(numbers, 2)


def test_acknowledging_in_a_transaction_is_exactly_once(runs: Runs, letters: list[int]) -> None:
    (job,) = ops.take(runs.conn, "letters", "jobs")
    with gapless.connect(runs.dsn) as conn, conn.transaction(force_rollback=True):
        conn.execute("insert into done (n) values (1)")
        assert ops.acknowledge(conn, job.held) == 1
    with gapless.connect(runs.dsn) as conn, conn.transaction():
        assert ops.acknowledge(conn, job.held) == 1
    with pytest.raises(RefusedError) as refused:
        ops.acknowledge(runs.conn, job.held)
    assert refused.value.sqlstate == "GL003"
