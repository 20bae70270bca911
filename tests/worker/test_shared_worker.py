"""partitionsPerWorker: one process, one session, several partitions, each with its own fence."""

import os
from signal import SIGKILL

import pytest

from support.fleet import Fleet, Instance, Load, until
from support.ledger import (
    assert_exactly_once,
    entries,
)

LOCKS = """
select pid, count(*) from pg_locks
where locktype = 'advisory' and classid = 7427003 and granted
  and database = (select oid from pg_database where datname = current_database())
group by pid order by 2
"""
STEAL = """
with taken as (
  update gapless.lease set epoch = epoch + 1, token = gen_random_uuid() where partition_id = %s
  returning *
)
select gapless.install_fence(group_id, topic_id, partition_id, epoch, token) from taken
"""


def start(fleet: Fleet, name: str, **settings: object) -> Instance:
    return fleet.start(name, **{"partitions_per_worker": 4, "total_partitions": 8, **settings})


def workers(instance: Instance) -> set[int]:
    return instance.children() - {instance.sequencer()}


def locks(fleet: Fleet) -> list[int]:
    return [count for _, count in fleet.conn.execute(LOCKS).fetchall()]


def publish_everywhere(fleet: Fleet, *payloads: dict[str, object]) -> None:
    for partition in range(8):
        fleet.publish(*payloads, partition=partition, partitions=8)


@pytest.mark.long
def test_two_workers_serve_eight_over_two_sessions(fleet: Fleet) -> None:
    a = start(fleet, "a")
    fleet.until_owners(a=8)
    until(a.sequencer, "a sequences")
    assert locks(fleet) == [4, 4]
    assert len(workers(a)) == 2
    publish_everywhere(fleet, {}, {})
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    pids = [{entry.pid for entry in run} for run in entries(fleet.conn).values()]
    assert len(set.union(*pids)) == 2, "two processes"
    assert all(len(each) == 1 for each in pids), "a partition stays with its worker"


@pytest.mark.long
def test_a_batch_never_spans_two_partitions(fleet: Fleet) -> None:
    start(fleet, "a", partitions_per_worker=8)
    fleet.until_owners(a=8)
    with fleet.conn.transaction():
        publish_everywhere(fleet, {}, {}, {})
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    rows = fleet.conn.execute("select count(distinct partition_id) from ledger group by xid")
    assert set(rows.fetchall()) == {(1,)}


def test_events_of_one_partition_do_not_wait_for_the_polls_of_the_others(fleet: Fleet) -> None:
    """A busy partition and waits of a minute: still everybody is woken by its notification."""
    start(fleet, "a", wait_period_ms=60_000, partitions_per_worker=8)
    fleet.until_owners(a=8)
    publish_everywhere(fleet)
    fleet.until_handled()
    with Load(fleet) as load:
        load.go_on(5)
        for partition in range(8):
            fleet.publish(partition=partition, partitions=8)
        until(
            lambda: all(len(run) >= 2 for run in entries(fleet.conn).values()),
            "all had their second",
        )
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_a_fenced_partition_leaves_the_others_alone(fleet: Fleet) -> None:
    a = start(fleet, "a", partitions_per_worker=8)
    fleet.until_owners(a=8)
    (worker,) = until(lambda: a.sequencer() and workers(a), "one worker")
    publish_everywhere(fleet)
    fleet.until_handled()
    fleet.conn.execute(STEAL, [7])  # a fence that no worker has: its worker must stop at once
    fleet.publish(partition=7, partitions=8)
    until(lambda: a.logged("g/t/7: fenced"), "fenced", within=a.log)
    publish_everywhere(fleet)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert workers(a) == {worker}, "the process goes on"
    epochs = dict(fleet.conn.execute("select partition_id, epoch from gapless.lease").fetchall())
    assert {p for p, epoch in epochs.items() if epoch > 1} == {7}, "only that one was taken anew"
    start(fleet, "b")
    fleet.until_owners(a=4, b=4)
    assert workers(a) == {worker}, "no lock was left behind for which b ended its session"


@pytest.mark.long
def test_a_deadly_unit_is_found_and_its_workers_other_partitions_lose_nothing(
    fleet: Fleet,
) -> None:
    a = start(fleet, "a", partitions_per_worker=8)
    fleet.until_owners(a=8)
    publish_everywhere(fleet, {}, {})
    fleet.publish({}, {"kill": True}, {}, partition=5, partitions=8)
    publish_everywhere(fleet, {}, {})
    fleet.until_handled(40)
    assert_exactly_once(fleet.conn, dead_offsets={(5, 4)})
    assert a.logged("at work on g/t/5"), "who was it"
    died = [line for line in a.log().splitlines() if " ended: signal SIGKILL" in line]
    assert len(died) == 4, "once among others, three times in careful mode"
    assert sum("at work on" in line for line in died) == 1, "then it was served alone"


@pytest.mark.long
@pytest.mark.parametrize("poison", [{"hang": True}, {"exit": 0}, {"segv": True}], ids=str)
def test_deadly_units_in_two_partitions_of_one_worker(
    fleet: Fleet, poison: dict[str, object]
) -> None:
    start(fleet, "a", partitions_per_worker=8, max_processing_ms=400)
    fleet.until_owners(a=8)
    for partition in (2, 6):
        fleet.publish({}, poison, {}, partition=partition, partitions=8)
    publish_everywhere(fleet, {})
    fleet.until_handled(40)
    assert_exactly_once(fleet.conn, dead_offsets={(2, 2), (6, 2)})


@pytest.mark.long
def test_what_fails_for_now_in_one_partition_keeps_no_other_waiting(fleet: Fleet) -> None:
    """A transient error waits ever longer, up to ten seconds: for its own partition only."""
    a = start(fleet, "a", partitions_per_worker=8)
    fleet.until_owners(a=8)
    fleet.conn.execute("create table trouble as select 1")
    fleet.publish(
        {
            "sql": "do $$ begin if exists (select from trouble) then "
            "raise serialization_failure; end if; end $$"
        },
        partition=1,
        partitions=8,
    )
    until(lambda: a.log().count("g/t/1: will try again") >= 2, "it waits", within=a.log)
    for partition in (0, 2, 3, 4, 5, 6, 7):
        fleet.publish(partition=partition, partitions=8)
    until(lambda: len(entries(fleet.conn)) == 7, "the others went on")
    fleet.conn.execute("delete from trouble")
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert not a.deaths()


@pytest.mark.long
def test_kills_under_load(fleet: Fleet) -> None:
    a, b = start(fleet, "a"), start(fleet, "b")
    fleet.until_owners(a=4, b=4)
    with Load(fleet, partitions=8) as load:
        for instance in (a, b, a):
            load.go_on()
            victim = next(iter(workers(instance)))
            os.kill(victim, SIGKILL)
            load.go_on()
            fleet.until_owners(a=4, b=4)
        a.signal_all(SIGKILL)
        fleet.until_owners(b=8)
        load.go_on()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
