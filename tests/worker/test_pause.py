"""SIGSTOP: of a whole instance, a supervisor, a worker. Nobody stands still, no zombie commits."""

import os
from collections.abc import Callable
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest

from support.fleet import Fleet, Instance, Load, until
from support.ledger import assert_exactly_once, entries
from support.patience import patience

TTL_S, GRACE_S = 1.5, 0.5  # as in fleet.QUICK
_RESTS = """
select bool_and(state = 'idle' and clock_timestamp() - state_change > interval '300 ms')
from pg_stat_activity
where datname = current_database() and application_name = 'gapless/worker g/t/0'
"""


def pair(fleet: Fleet, **settings: object) -> tuple[Instance, Instance]:
    a = fleet.start("a", **settings)
    fleet.until_owners(a=4)
    until(a.sequencer, "a sequences")
    b = fleet.start("b", **settings)
    fleet.until_owners(a=2, b=2)
    return a, b


@pytest.mark.long
@pytest.mark.parametrize("whole", [True, False], ids=["all of it", "its supervisor alone"])
def test_a_stopped_instance_is_replaced_and_comes_back(
    fleet: Fleet, record_property: Callable[[str, object], None], whole: bool
) -> None:
    a, _ = pair(fleet)
    signal = a.signal_all if whole else a.signal
    with Load(fleet) as load:
        load.go_on()
        since = fleet.now()
        signal(SIGSTOP)
        fleet.until_owners(b=4)
        load.go_on()
        signal(SIGCONT)
        fleet.until_owners(a=2, b=2)
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert a.logged("was evicted, joining as a new member")
    stalls = [
        max(y.at - x.at for x, y in zip(run, run[1:], strict=False) if y.at > since)
        for run in entries(fleet.conn).values()
    ]
    record_property("longest_stall_s", max(stalls))
    print(f"SIGSTOP of an instance: longest stall {max(stalls):.2f} s")  # noqa: T201
    # a sequencer that stands still for 2 s is replaced, whatever the ttl
    assert max(stalls) < patience(TTL_S + GRACE_S + 3.0)


@pytest.mark.long
def test_a_worker_stopped_in_its_handler_is_killed_by_its_supervisor(
    fleet: Fleet, tmp_path: Path
) -> None:
    a = fleet.start("a", max_processing_ms=500)
    fleet.until_owners(a=4)
    fleet.publish({}, {"once": str(tmp_path / "stopped"), "stop": True}, {})
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert a.logged("killed: one turn took longer than 500 ms")


@pytest.mark.long
def test_an_idle_worker_that_is_stopped_is_killed_by_its_supervisor(fleet: Fleet) -> None:
    """At rest it has no batch that could overrun; its silence gives it away."""
    a = fleet.start("a", connect_timeout_s=1, patch={"gapless.worker.children.SILENCE_S_MAX": 0.5})
    fleet.until_owners(a=4)
    victim = until(lambda: a.worker("g/t/0"), "a worker", within=a.log)  # it owns, then it logs
    until(lambda: fleet.value(_RESTS), "the worker is at rest")  # its first claim is work
    os.kill(victim, SIGSTOP)
    fleet.publish()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert a.logged("stopped or hung")


def test_a_zombie_in_its_transaction_cannot_commit(fleet: Fleet, tmp_path: Path) -> None:
    """The worker is stopped in its handler, its supervisor too; another takes over; all wake up."""
    a, b = pair(fleet)
    flags = [tmp_path / str(partition) for partition in range(4)]
    for partition, flag in enumerate(flags):
        payload: dict[str, object] = {"once": str(flag), "sleep_s": 1.0}
        fleet.publish({}, payload, {}, partition=partition)
    until(lambda: all(flag.exists() for flag in flags), "all in their handlers")
    a.signal_all(SIGSTOP)
    fleet.until_owners(b=4)
    fleet.until_handled()
    handled = fleet.value("select count(*) from ledger")
    a.signal_all(SIGCONT)
    until(lambda: a.logged("joining as a new member"), "a is back")
    fleet.until_owners(a=2, b=2)
    assert fleet.value("select count(*) from ledger") == handled == 12
    assert_exactly_once(fleet.conn)
    assert b.children()


@pytest.mark.long
def test_a_zombie_without_its_lock_is_fenced_at_commit(fleet: Fleet, tmp_path: Path) -> None:
    """Somebody else has the advisory lock already: only the row says who may commit (I7)."""
    a, _ = pair(fleet, zombie_after_ms=60_000)
    flags = [tmp_path / str(partition) for partition in range(4)]
    unlock = "select pg_advisory_unlock_all()"
    for partition, flag in enumerate(flags):
        fleet.publish({"once": str(flag), "sql": unlock, "sleep_s": 0.5}, {}, partition=partition)
    until(lambda: all(flag.exists() for flag in flags), "all in their handlers")
    a.signal_all(SIGSTOP)
    # The row lock of the open transaction keeps the new owner waiting, not working: safe, and slow.
    until(
        lambda: fleet.value("select count(distinct owner) from gapless.lease") == 1,
        "b has taken the leases",
        within=fleet.state,
    )
    a.signal_all(SIGCONT)
    fleet.until_owners(a=2, b=2)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_a_short_pause_moves_nothing(fleet: Fleet) -> None:
    a, _ = pair(fleet, member_ttl_ms=5000)
    members = fleet.value("select array_agg(member_id order by member_id) from gapless.member")
    with Load(fleet) as load:
        load.go_on()
        since = fleet.now()
        a.signal_all(SIGSTOP)
        until(lambda: fleet.now() - since > 1.0, "a second later")
        a.signal_all(SIGCONT)
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert (
        fleet.value("select array_agg(member_id order by member_id) from gapless.member") == members
    )
    assert len({e.pid for run in entries(fleet.conn).values() for e in run if e.at > since}) == 4
