"""The number of partitions changes while supervisors run, producers never stop, and workers die."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from random import Random
from signal import SIGKILL

import psycopg
import pytest

from support.fleet import Fleet, until
from support.ledger import assert_exactly_once

TIMEOUT_S = 60.0
KEYS = 12
TOPICS = ("t", "u")
GROUPS = [("g", "t"), ("h", "t"), ("g", "u")]
_BY_KEY = """
select o.key, array_agg(o.event_type::int order by l.id)
from ledger l
join gapless.topic t on t.name = l.topic
join gapless.log_segment s on s.topic_id = t.topic_id and s.partition_id = l.partition_id
  and l.c_offset between s.base_offset and s.last_offset
join gapless.outbox_message_t o on o.id = s.message_ids[l.c_offset - s.base_offset + 1]
where l.group_id = %s and l.topic = %s
group by o.key
"""
_LEASES = """
select array_agg(l.partition_id order by l.partition_id)
from gapless.lease l
join gapless.topic t using (topic_id)
where l.group_id = %s and t.name = %s
"""
_MOST = """
select max(n.partitions) from (
  select count(*) as partitions from gapless.lease l group by l.group_id, l.topic_id, l.owner
) n
"""


class Producer:
    """Publishes to keys of its own, some of them in each transaction, until it is told to stop."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._dsn = fleet.dsn
        self._keys = [f"{seed}-{n}" for n in range(KEYS)]
        self._random = Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.published = 0

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def go_on(self, transactions: int = 25) -> None:
        """Return after so many more transactions."""
        goal = self.published + transactions
        until(lambda: self.published >= goal, "more events published", timeout_s=TIMEOUT_S)

    def _run(self) -> None:
        with psycopg.connect(self._dsn) as conn:
            while not self._stop.wait(0.01):
                self.published += 1
                for topic in TOPICS:
                    conn.execute(
                        "select gapless.publish(%s, '{}', k, %s)"
                        " from unnest(%s::text[]) k, generate_series(1, 2)",
                        [topic, str(self.published), self._random.sample(self._keys, 3)],
                    )
                time.sleep(self._random.choice([0, 0, 0, 0.05]))  # with the transaction open
                conn.commit()


def change(fleet: Fleet, partitions: int, topic: str = "t") -> None:
    fleet.conn.execute("select gapless.set_partitions(%s, %s)", [topic, partitions])


def assert_order_of_keys(fleet: Fleet, group: str, topic: str) -> None:
    """I4: each key in the order in which its events were published, whatever partition they had."""
    for key, numbers in fleet.conn.execute(_BY_KEY, [group, topic]).fetchall():
        assert numbers == sorted(numbers), f"{group}/{topic}, key {key}: {numbers}"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_the_number_changes_under_load_and_kills(fleet: Fleet, seed: int) -> None:
    """4 -> 7 -> 2 -> 16 -> 3, the last two before the one before them is finished."""
    random = Random(seed)
    running = [fleet.start(name, groups=GROUPS) for name in "abc"]
    until(lambda: sum(fleet.owners().values()) == 12, "all owned", timeout_s=TIMEOUT_S)

    def kill_a_worker() -> None:
        victim = random.choice(sorted(set().union(*(each.children() for each in running))))
        with suppress(ProcessLookupError):
            os.kill(victim, SIGKILL)

    with Producer(fleet, 1) as producer, Producer(fleet, 2):
        producer.go_on()
        for partitions in (7, 2, 16, 3):
            change(fleet, partitions)
            kill_a_worker()
            producer.go_on(random.choice([1, 25, 60]))
            kill_a_worker()
            if partitions == 2:
                running.append(fleet.start("d", groups=GROUPS, total_partitions=None))
                until(lambda: "d" in fleet.owners(), "a new one finds its place", timeout_s=60)
        producer.go_on()
    fleet.until_handled(timeout_s=TIMEOUT_S)
    for group, topic in GROUPS:
        assert_exactly_once(fleet.conn, group, topic)
        assert_order_of_keys(fleet, group, topic)
        number = 3 if topic == "t" else 4
        until(
            lambda: fleet.value(_LEASES, group, topic) == list(range(number)),  # noqa: B023
            "what is old is retired",
            within=fleet.state,
        )
    until(
        lambda: sum(fleet.owners().values()) == 3 + 3 + 4 and fleet.value(_MOST) == 1,
        "balanced: four share three or four",
        within=fleet.state,
    )
    assert fleet.value("select count(*) from gapless.changes") == 0


def test_a_slow_batch_before_a_barrier_delays_its_own_keys_only(fleet: Fleet) -> None:
    """4 -> 8: what was in partition 1 goes on in 1 and 5; the other six do not wait for it."""
    gate = fleet.folder / "gate"
    fleet.start("a")
    fleet.until_owners(a=4)
    fleet.publish({"wait_for": str(gate)}, partition=1)
    until(lambda: fleet.value("select count(*) from pg_stat_activity where xact_start is not null"
                              " and application_name like 'gapless/worker%%'"), "it is at it")  # fmt: skip
    change(fleet, 8)
    for partition in range(8):
        fleet.publish(partition=partition, partitions=8)
    until(lambda: fleet.value("select count(*) from ledger") == 6, "the others", within=fleet.state)
    waits = "select array_agg(partition_id) from gapless.waits"
    until(lambda: fleet.value(waits) == [5], "5 waits", within=fleet.state)
    gate.touch()
    fleet.until_handled()
    assert_exactly_once(fleet.conn)


@pytest.mark.long
def test_a_waiting_partition_is_woken(fleet: Fleet) -> None:
    """By a notification: the fallback poll is an hour away."""
    fleet.start("a", wait_period_ms=3_600_000)
    fleet.until_owners(a=4)
    for partition in range(4):
        fleet.publish(*({"sleep_s": 0.2},) * 3, partition=partition)
    change(fleet, 3)
    for partition in range(3):
        fleet.publish(partition=partition, partitions=3)
    fleet.until_handled(timeout_s=TIMEOUT_S)
    assert_exactly_once(fleet.conn)
    fleet.until_owners(a=3)
