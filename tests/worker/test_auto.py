"""partitionsPerWorker: auto: few workers for fast handlers, one a partition for those that are not."""

from collections import Counter
from typing import Any

import pytest

from gapless.worker.crew import workers_max
from support.fleet import Fleet, Instance, until
from support.ledger import assert_exactly_once, entries

SESSIONS = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name like 'gapless/worker %%'
"""
LOCKS = """
select count(*) from pg_locks k join gapless.lease l on l.lease_no::bigint::oid = k.objid
where k.locktype = 'advisory' and k.classid = 7427003 and k.granted
  and k.database = (select oid from pg_database where datname = current_database())
  and l.group_id = %s group by k.pid order by 1
"""
OVER = """
select next_offset > 8 from gapless.consumer_offsets where partition_id = 0 and group_id = 'g'
"""
CONTROL = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name like 'gapless/supervisor%%'
"""
PARTITIONS = 16


def start(fleet: Fleet, **settings: Any) -> Instance:
    said = {"partitions_per_worker": "auto", "total_partitions": PARTITIONS, **settings}
    return fleet.start(said.pop("name", "a"), **said)


def publish_everywhere(fleet: Fleet, topic: str = "t") -> None:
    for partition in range(PARTITIONS):
        fleet.publish(topic=topic, partition=partition, partitions=PARTITIONS)


def shared(fleet: Fleet, group: str) -> list[int]:
    """How many partitions each worker of a group has, by the locks that it holds."""
    return [count for (count,) in fleet.conn.execute(LOCKS, [group]).fetchall()]


def test_a_few_workers_serve_all(fleet: Fleet) -> None:
    a = start(fleet, groups=[("g", "t"), ("h", "t")], total_partitions=PARTITIONS)
    fleet.until_owners(a=2 * PARTITIONS)
    publish_everywhere(fleet)
    fleet.until_handled()
    each = max(1, workers_max() // 2)  # of two groups
    assert shared(fleet, "g") == shared(fleet, "h") == [PARTITIONS // each] * each
    assert fleet.value(SESSIONS) == 2 * each
    assert_exactly_once(fleet.conn)
    assert not a.deaths()


def test_workers_without_a_listen_are_rung_also_for_what_came_while_their_supervisor_was_cut(
    fleet: Fleet,
) -> None:
    a = start(fleet, wait_period_ms=3_600_000)
    fleet.until_owners(a=PARTITIONS)
    for is_cut in (False, True, False):
        if is_cut:
            fleet.close_door()
            assert fleet.terminate("gapless/supervisor%") == 1
            until(lambda: not fleet.value(CONTROL), "cut")
        publish_everywhere(fleet)
        fleet.open_door()
        fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert not a.deaths()


@pytest.mark.long
def test_a_handler_that_sleeps_holds_up_nobody_for_longer_than_it_takes_to_find_out(
    fleet: Fleet,
) -> None:
    """Neighbours: the other partitions of its group, and another group."""
    a = start(fleet, groups=[("g", "t"), ("h", "u")], batch_size=4)
    fleet.until_owners(a=2 * PARTITIONS)
    fleet.publish(*[{"sleep_s": 0.7}] * 8, partition=0, partitions=PARTITIONS)
    until(lambda: len(shared(fleet, "g")) == PARTITIONS, "a worker each", within=a.log)
    assert a.logged("g/t: its handler is slow"), "and why"
    for topic in ("t", "u"):
        publish_everywhere(fleet, topic)
    until(
        lambda: sum(map(len, entries(fleet.conn, "h", "u").values())) == PARTITIONS,
        "the other group has all",
    )
    until(lambda: all(entries(fleet.conn).get(each) for each in range(1, PARTITIONS)), "neighbours")
    assert not fleet.value(OVER), "what is slow is still going on, and nobody waits for it"
    assert len(shared(fleet, "h")) < PARTITIONS
    fleet.until_handled(60)
    assert_exactly_once(fleet.conn)


def test_one_that_takes_its_time_has_batches_that_its_neighbours_can_wait_for(fleet: Fleet) -> None:
    """A tenth of a second is ten calls of 10 ms, however many a batch may have."""
    start(fleet, batch_size=50)
    fleet.until_owners(a=PARTITIONS)
    fleet.publish(*[{"sleep_s": 0.01}] * 60, partition=0, partitions=PARTITIONS)
    fleet.until_handled()
    batches = Counter(entry.xid for entry in entries(fleet.conn)[0])
    assert 1 < max(batches.values()) <= 10, batches
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_who_calls_outside_or_was_killed_for_its_time_shares_nothing(fleet: Fleet) -> None:
    a = start(fleet, max_processing_ms=300)
    fleet.until_owners(a=PARTITIONS)
    assert len(shared(fleet, "g")) == min(workers_max(), PARTITIONS)
    fleet.publish({"hang": True, "attempts": [1, 1]}, partition=3, partitions=PARTITIONS)
    until(lambda: len(shared(fleet, "g")) == PARTITIONS, "a worker each", within=a.log)
    fleet.until_handled()
    b = start(fleet, name="b", groups=[("o", "u")], delivery="at-least-once")
    fleet.until_owners(a=PARTITIONS, b=PARTITIONS)
    assert shared(fleet, "o") == [1] * PARTITIONS
    assert not b.logged("is slow")


@pytest.mark.long
def test_they_are_shared_anew_when_another_comes_and_goes(fleet: Fleet) -> None:
    a, b = start(fleet), start(fleet, name="b")
    fleet.until_owners(a=PARTITIONS // 2, b=PARTITIONS // 2)
    workers = min(workers_max(), PARTITIONS // 2)
    even = [PARTITIONS // 2 // workers] * workers * 2
    until(lambda: shared(fleet, "g") == even, "as many each", within=fleet.logs)
    publish_everywhere(fleet)
    fleet.until_handled()
    b.signal_all(9)
    fleet.until_owners(a=PARTITIONS)
    until(lambda: len(shared(fleet, "g")) == workers_max(), "as before", within=a.log)
    publish_everywhere(fleet)
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
