"""What a fork must not share: no descriptor of another's session or pipe, no thread."""

import os
import re
import time
from collections import Counter
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from support.fleet import Fleet, Instance, until
from support.ledger import assert_exactly_once

SOON = {"gapless.worker.retries.BACKOFF_S_MAX": 0.1}


def descriptors(pid: int) -> Counter[str]:
    """What a process has open: `socket:[inode]`, `pipe:[inode]`, files by name."""
    found = Counter[str]()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found[str(entry.readlink())] += 1
        except FileNotFoundError:
            continue
    return found


def kinds(pid: int, kind: str) -> set[str]:
    return {name for name in descriptors(pid) if name.startswith(kind)}


def all_acquired(fleet: Fleet) -> Instance:
    """One supervisor whose workers came and went in all orders."""
    a = fleet.start("a", total_partitions=6)
    fleet.until_owners(a=6)
    until(a.sequencer, "a sequences")
    for partition in (0, 3):
        victim = until(lambda: a.worker(f"g/t/{partition}"), "a worker")  # noqa: B023
        os.kill(victim, SIGKILL)
        until(lambda: a.worker(f"g/t/{partition}") not in {None, victim}, "another")  # noqa: B023
    until(lambda: len(a.children()) == 7, "those that were killed have ended")
    return a


@pytest.mark.long
def test_children_share_no_session_and_no_pipe(fleet: Fleet) -> None:
    a = all_acquired(fleet)
    parent_sockets = kinds(a.pid, "socket:")
    assert len(parent_sockets) == 3, "its control session, and two for signals"
    children = a.children()
    for child in children:
        own = kinds(child, "socket:")
        assert len(own) == 1, "its session"
        assert not own & parent_sockets
        for sibling in children - {child}:
            assert not own & kinds(sibling, "socket:")
            assert not kinds(child, "pipe:") & kinds(sibling, "pipe:")
    backends = fleet.value(
        "select count(distinct pid) from pg_stat_activity"
        " where datname = current_database() and application_name ~ '^gapless/(w|se|su)'"
    )
    assert backends == 8


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


@pytest.mark.long
def test_who_forks_has_no_thread_and_nobody_but_the_sequencer_has_one(fleet: Fleet) -> None:
    """A fork copies one thread, and the locks of all. The process with duties never forks."""
    a = all_acquired(fleet)
    sequencer = until(a.sequencer, "a sequences")
    until(lambda: threads(sequencer) == 5, "what drops, expires, compacts and records")
    for pid in {a.pid} | a.children() - {sequencer}:
        assert threads(pid) == 1
    assert not Path(f"/proc/{sequencer}/task/{sequencer}/children").read_text()


def test_handlers_are_imported_once_before_the_fork(fleet: Fleet) -> None:
    a = all_acquired(fleet)
    assert a.log().count("handlers imported") == 1
    assert f"handlers imported by {a.pid}" in a.log()


@pytest.mark.long
def test_nothing_is_left_open_after_many_workers(fleet: Fleet) -> None:
    """A worker's end gives back its pipes, and its place on the board."""
    a = fleet.start("a", patch={**SOON, "gapless.worker.children.SLOTS": 6})
    fleet.until_owners(a=4)
    before = sum(descriptors(a.pid).values())
    for _ in range(8):
        fleet.terminate("gapless/worker g/t/1")
        fleet.terminate("gapless/worker g/t/2")
        fleet.publish(partition=1)
        fleet.publish(partition=2)
        fleet.until_handled()
    until(lambda: len(a.children()) == 5, "all there")
    assert sum(descriptors(a.pid).values()) == before
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_a_fork_that_fails_is_tried_again(fleet: Fleet) -> None:
    """No room for a process: the supervisor stays, and no place on the board is lost."""
    a = fleet.start("a", odd={"refused_forks": 6}, patch={"gapless.worker.children.SLOTS": 5})
    fleet.until_owners(a=4)
    assert a.logged("cannot be forked, will try again")
    assert a.log().count("cannot be forked") == 6
    fleet.publish()
    fleet.until_handled()


@pytest.mark.long
def test_a_parent_that_died_between_fork_and_settle_leaves_no_orphan(fleet: Fleet) -> None:
    """PDEATHSIG is set after the fork: a parent that is gone by then would never be noticed."""
    a = fleet.start("a", odd={"pause_after_fork_s": 0.5})
    until(lambda: len(a.children()) >= 1, "forked")
    children = a.children()
    a.signal(SIGKILL)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), "gone")


@pytest.mark.long
def test_an_idle_supervisor_costs_next_to_nothing(fleet: Fleet) -> None:
    a = fleet.start("a")
    fleet.until_owners(a=4)
    pids = {a.pid} | a.children()
    ticks = sum(map(cpu_ticks, pids))
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 2.0, "two seconds later")
    used_s = (sum(map(cpu_ticks, pids)) - ticks) / os.sysconf("SC_CLK_TCK")
    assert used_s < 0.4, "somebody spins"
    a.signal(SIGTERM)
    assert a.ended() == 0


def cpu_ticks(pid: int) -> int:
    fields = re.split(r"\s+", Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].strip())
    return int(fields[11]) + int(fields[12])
