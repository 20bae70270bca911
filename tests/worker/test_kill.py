"""kill -9: of a worker, a supervisor, a whole instance, everything. Others go on, nothing twice."""

import os
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL

import pytest

from support.fleet import Fleet, Instance, Load, until
from support.ledger import assert_exactly_once, entries
from support.patience import patience


def recovery_ms(fleet: Fleet, since: float, pids: set[int]) -> list[int]:
    """How long after `since` each partition that these processes had was worked on by others."""
    found = []
    for run in entries(fleet.conn).values():
        if any(entry.pid in pids for entry in run):
            after = [e.at for e in run if e.at > since and e.pid not in pids]
            found.append(round((after[0] - since) * 1000))
    return sorted(found)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.invariant("I8")
def test_a_killed_worker_is_replaced(
    fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    a = fleet.start("a")
    fleet.until_owners(a=4)
    with Load(fleet) as load:
        load.go_on()
        victim = a.worker("g/t/1")
        assert victim is not None
        since = fleet.now()
        os.kill(victim, SIGKILL)
        until(lambda: a.worker("g/t/1") not in {None, victim}, "another worker", within=a.log)
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    took = recovery_ms(fleet, since, {victim})
    record_property("recovery_ms", took)
    print("kill -9 of a worker:", took, "ms")  # noqa: T201
    assert took[-1] < patience(2.0) * 1000
    assert a.logged("worker g/t/1 ended: signal SIGKILL (out of memory?)")


@pytest.mark.long
@pytest.mark.parametrize("whole", [False, True], ids=["a supervisor", "all of an instance"])
def test_peers_take_over_what_a_killed_instance_had(
    fleet: Fleet, record_property: Callable[[str, object], None], whole: bool
) -> None:
    """The workers of a killed supervisor die with it."""
    a, _ = pair(fleet)
    with Load(fleet) as load:
        load.go_on()
        children = a.children()
        assert len(children) == 3
        since = fleet.now()
        if whole:
            a.signal_all(SIGKILL)
        else:
            a.signal(SIGKILL)
            until(lambda: not any(map(alive, children)), "its children are dead")
        fleet.until_owners(b=4)
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    took = recovery_ms(fleet, since, children)
    record_property("recovery_ms", took)
    print(f"kill -9, whole {whole}:", took, "ms")  # noqa: T201
    assert len(took) == 2
    assert took[-1] < patience(2.0) * 1000


def pair(fleet: Fleet) -> tuple[Instance, Instance]:
    """Two supervisors with two partitions each; the first has the sequencer."""
    a = fleet.start("a")
    fleet.until_owners(a=4)
    until(a.sequencer, "a sequences")
    b = fleet.start("b")
    fleet.until_owners(a=2, b=2)
    return a, b


@pytest.mark.long
def test_killed_in_the_middle_of_a_batch(fleet: Fleet, tmp_path: Path) -> None:
    """What a killed worker had written is not there, and is written again by its successor."""
    a, _ = pair(fleet)
    for partition in range(4):
        begun = tmp_path / str(partition)
        fleet.publish({}, {"once": str(begun), "hang": True}, {}, partition=partition)
    until(lambda: len(list(tmp_path.glob("[0-3]"))) == 4, "all in their handlers")
    a.signal_all(SIGKILL)
    fleet.until_owners(b=4)
    for pid in fleet.instances[1].children():
        if pid != fleet.instances[1].sequencer():
            os.kill(pid, SIGKILL)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_all_are_killed_and_one_comes_back(fleet: Fleet) -> None:
    a, b = pair(fleet)
    with Load(fleet) as load:
        load.go_on()
        a.signal_all(SIGKILL)
        b.signal_all(SIGKILL)
        fleet.start("c")
        fleet.until_owners(c=4)
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert fleet.value("select count(*) from gapless.member") == 1


@pytest.mark.long
def test_a_joiner_is_killed_in_the_middle_of_its_hand_over(fleet: Fleet) -> None:
    """Promised, never taken: who has the partitions keeps them."""
    fleet.start("a")
    fleet.until_owners(a=4)
    with Load(fleet) as load:
        for _ in range(3):
            b = fleet.start("b")
            until(
                lambda: fleet.value("select count(*) from gapless.lease where target <> owner"),
                "a plan with b",
            )
            b.signal_all(SIGKILL)
            b.ended()
            fleet.until_owners(a=4)
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    until(lambda: fleet.value("select count(*) from gapless.member") == 1, "b is evicted")


@pytest.mark.long
def test_killed_in_the_middle_of_a_hand_over(fleet: Fleet, tmp_path: Path) -> None:
    """Its successor waits, nobody will release it: its supervisor gives the lease up."""
    a = fleet.start("a")
    fleet.until_owners(a=4)
    for partition in range(4):
        begun = tmp_path / str(partition)
        fleet.publish({"once": str(begun), "hang": True}, {}, partition=partition)
    until(lambda: len(list(tmp_path.glob("[0-3]"))) == 4, "all in their handlers")
    fleet.start("b")
    promised = "select count(*) from gapless.lease where target <> owner"
    until(lambda: fleet.value(promised) == 2, "two are promised to b")
    for pid in a.children() - {a.sequencer()}:
        os.kill(pid, SIGKILL)
    fleet.until_owners(a=2, b=2)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
