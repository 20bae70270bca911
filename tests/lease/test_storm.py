"""All control statements at once, from many sessions: no deadlock, no long wait, no lost partition."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random

import psycopg
from psycopg import Connection

from gapless.db.connect import connect
from gapless.keys import Partition
from gapless.lease import hold
from gapless.lease.member import Member, ServedTopic, Timing
from support.cast import Cast
from support.patience import BELOW_TIMEOUT_S, patience

SUPERVISORS = 6
STORM_S = 3.0
WAIT_S_MAX = 2.0
TAKEN_MIN = 50
GROUPS = ("g", "h")
HASTY = Timing(ttl_ms=200, suspect_grace_ms=0, reconnect_grace_ms=0)


class Supervisor:
    """A member that joins, plans, evicts, works on all partitions it can get, leaves, joins anew."""

    def __init__(self, cast: Cast, seed: int) -> None:
        self._cast = cast
        self._random = Random(seed)
        self._worker: Connection = connect(cast.dsn, role="worker")
        self._control: Connection = connect(cast.dsn, role="control")
        self._member = self._join()
        self.longest_s = 0.0
        self.taken = 0
        self.epochs: list[tuple[Partition, int]] = []

    def storm(self, is_over: Callable[[], bool]) -> None:
        deeds: list[tuple[int, Callable[[], object]]] = [
            *((3, partial(self._tell, name)) for name in ("sync", "beat", "watch", "evict")),
            (2, partial(self._tell, "leases")),
            (6, self._work),
            (1, self._leave_and_join),
            (1, lambda: self._member.disown(self._partition())),
            (1, lambda: hold.announce(self._worker, self._partition())),
        ]
        choices = [deed for weight, deed in deeds for _ in range(weight)]
        while not is_over():
            began = time.monotonic()
            self._random.choice(choices)()
            self.longest_s = max(self.longest_s, time.monotonic() - began)
        self._control.close()
        self._worker.close()

    def _tell(self, name: str) -> None:
        getattr(self._member, name)()

    def _partition(self) -> Partition:
        return self._cast.partition(self._random.randrange(4), self._random.choice(GROUPS))

    def _work(self) -> None:
        partition = self._partition()
        taken = hold.take(self._worker, partition, self._member.member_id)
        if taken is None:
            return
        self.taken += 1
        self.epochs.append((partition, taken.epoch))
        try:
            held = hold.install(self._worker, taken)
        except psycopg.errors.LockNotAvailable:
            return
        if held is not None and self._random.random() < 0.7:
            with self._worker.transaction():
                self._worker.execute(
                    "select from gapless.consumer_offsets where group_id = %s and topic_id = %s"
                    " and partition_id = %s for update",
                    [partition.group_id, partition.topic_id, partition.partition_id],
                )
                time.sleep(self._random.random() * 0.01)
            hold.release(self._worker, taken, 0)

    def _leave_and_join(self) -> None:
        if self._random.random() < 0.5:
            self._member.drain()
            self._member.leave()
        self._control.close()
        self._control = connect(self._cast.dsn, role="control")
        self._member = self._join()

    def _join(self) -> Member:
        topic = self._cast.topic
        subscriptions = [
            ServedTopic(group_id=group, topic=topic.name, topic_id=topic.topic_id)
            for group in GROUPS
        ]
        capacity = self._random.choice([None, None, 2])
        return Member(self._control, subscriptions, HASTY, name="m", capacity=capacity)


def test_control_statements_in_a_storm(cast: Cast) -> None:
    supervisors = [Supervisor(cast, seed) for seed in range(SUPERVISORS)]
    began_s = time.monotonic()

    def is_over() -> bool:
        lasted_s = time.monotonic() - began_s
        enough = sum(each.taken for each in supervisors) > TAKEN_MIN
        return lasted_s > STORM_S and (enough or lasted_s > BELOW_TIMEOUT_S)

    with ThreadPoolExecutor(SUPERVISORS) as pool:
        list(pool.map(lambda each: each.storm(is_over), supervisors))
    assert sum(each.taken for each in supervisors) > TAKEN_MIN, "the storm was a breeze"
    assert max(each.longest_s for each in supervisors) < patience(WAIT_S_MAX)
    given = [epoch for each in supervisors for epoch in each.epochs]
    assert len(given) == len(set(given)), "an epoch was given twice"

    # Whatever they left: one that comes now gets everything.
    last = cast.member("last", groups=GROUPS)
    for _ in range(100):
        if last.watch():
            last.evict()
        last.sync()
        if cast.members() == {last.member_id} and not last.watch():
            break
        time.sleep(0.05)
    row = cast.conn.execute(
        "select count(*) filter (where target = %s), count(*) from gapless.lease", [last.member_id]
    ).fetchone()
    assert row == (8, 8)
