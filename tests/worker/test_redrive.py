"""Redrive with real workers: exactly once, in order, by two people at once, under kills."""

import os
import subprocess
import sys
import threading
from signal import SIGKILL

import pytest

from support.fleet import Fleet, Instance, until
from support.ledger import entries

DEAD = "select count(*) from gapless.dead_letter where state = 'dead'"
REDRIVEN = "select count(*) from gapless.dead_letter where state = 'redriven'"
UNLESS_MENDED = "select 1 / (select count(*) from mended)"


@pytest.fixture
def broken(fleet: Fleet) -> Instance:
    """Six dead letters and six handled events in each of four partitions, and their supervisor."""
    fleet.conn.execute("create table mended (n int)")
    a = fleet.start("a")
    fleet.until_owners(a=4)
    for partition in range(4):
        for _ in range(6):
            fleet.publish({"sql": UNLESS_MENDED}, {}, partition=partition)
    fleet.until_handled(timeout_s=60)
    until(lambda: fleet.value(DEAD) == 24, "all are dead", timeout_s=60)
    return a


def redrive(fleet: Fleet, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gapless", "dlq", "redrive", *words],
        env=os.environ | {"GAPLESS_DSN": fleet.dsn},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kill_workers(instance: Instance, times: int, stop: threading.Event) -> None:
    for _ in range(times):
        if stop.wait(0.5):
            return
        for pid in list(instance.children() - {instance.sequencer()})[:2]:
            os.kill(pid, SIGKILL)


def assert_each_once(fleet: Fleet) -> None:
    """What was dead is handled once, in order, after what had been handled before."""
    for run in entries(fleet.conn).values():
        offsets = [entry.c_offset for entry in run]
        assert offsets == [*range(2, 13, 2), *range(1, 12, 2)]


@pytest.mark.long
def test_not_mended_and_redriven(fleet: Fleet, broken: Instance) -> None:
    """They die again, nothing is lost, and a later redrive is as good as the first."""
    redrive(fleet, "--all", "--yes").communicate(timeout=60)
    until(lambda: fleet.value(f"{DEAD} and attempts = 2") == 24, "all are dead again", timeout_s=60)
    fleet.conn.execute("insert into mended values (1)")
    again = redrive(fleet, "--error", "division by zero", "--yes").communicate(timeout=60)
    assert again == ("to be handled again: 24 units\n", "")
    until(lambda: fleet.value(REDRIVEN) == 24, "all are handled", timeout_s=60)
    assert_each_once(fleet)
    assert fleet.value("select count(*) from gapless.dead_letter_queue") == 0


@pytest.mark.long
def test_two_people_at_once_while_workers_are_killed(fleet: Fleet, broken: Instance) -> None:
    fleet.conn.execute("insert into mended values (1)")
    stop = threading.Event()
    killer = threading.Thread(target=kill_workers, args=(broken, 4, stop))
    processes = [redrive(fleet, "--all", "--yes", "--json") for _ in range(2)]
    killer.start()
    try:
        for process in processes:
            _, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
        until(lambda: fleet.value(REDRIVEN) == 24, "all are handled", timeout_s=60)
    finally:
        stop.set()
        killer.join()
    assert_each_once(fleet)


@pytest.mark.long
def test_killed_in_the_handler_of_a_redriven_unit(fleet: Fleet) -> None:
    """What it had written is gone with it; the next worker handles the unit, once."""
    fleet.conn.execute("create table mended (n int)")
    a = fleet.start("a")
    fleet.until_owners(a=4)
    fleet.publish({"sleep_s": 2, "sql": UNLESS_MENDED})
    until(lambda: fleet.value(DEAD) == 1, "it is dead", timeout_s=60)
    fleet.conn.execute("insert into mended values (1)")
    out, err = redrive(fleet, "g/t/0/1").communicate(timeout=60)
    assert out == "to be handled again: 1 unit\n", err
    until(lambda: fleet.value("select max(crashes) from gapless.dead_letter") == 1, "it is at it")
    victim = a.worker("g/t/0")
    assert victim is not None
    os.kill(victim, SIGKILL)
    process = redrive(fleet, "g/t/0/1")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "g/t/0@1 was redriven already, by " in err
    until(lambda: fleet.value(REDRIVEN) == 1, "it is handled", timeout_s=60)
    assert [entry.c_offset for entry in entries(fleet.conn)[0]] == [1]
