"""Random publishes, changes, groups and turns: order per key, and each event exactly once.

The model knows what was published and when, not how a change works.
"""

from contextlib import ExitStack

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from psycopg import Connection

from gapless.db.connect import connect
from gapless.log.sequence import sequence
from partitions.players import Players
from support.examples import examples
from support.log import assert_gapless, assert_neighbours, placed

KEYS = [f"k{n}" for n in range(6)]
PARTITIONS = st.sampled_from([1, 2, 3, 4, 6, 8, 12])
GROUPS_MAX = 3


class Changes(RuleBasedStateMachine):
    dsn: str
    conn: Connection

    @initialize(partitions=PARTITIONS)
    def begin(self, partitions: int) -> None:
        self.conn.execute("drop table if exists effect")
        self.conn.execute(
            "truncate gapless.topic, gapless.outbox_message_t, gapless.member cascade"
        )
        self.players = Players(self.conn, partitions=partitions)
        self.stack = ExitStack()
        self.open = self.stack.enter_context(connect(self.dsn, role="producer"))
        self.open_tags: list[str] = []

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=4), now=st.booleans())
    def publish(self, keys: list[str], now: bool) -> None:
        self.players.publish(*keys, sequenced=now)

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3))
    def publish_and_leave_open(self, keys: list[str]) -> None:
        if not self.open_tags:
            self.open.execute("begin")
        self.open_tags += self.players.insert(self.open, *keys)

    @precondition(lambda self: self.open_tags)
    @rule()
    def commit(self) -> None:
        self.open.execute("commit")
        self.players.committed(self.open_tags)
        self.open_tags = []

    @rule()
    def sequence(self) -> None:
        sequence(self.conn)

    @rule(partitions=PARTITIONS)
    def change(self, partitions: int) -> None:
        self.players.change(partitions)

    @precondition(lambda self: len(self.players.groups) < GROUPS_MAX)
    @rule(start=st.sampled_from(["earliest", "earliest", "latest"]))
    def another_group(self, start: str) -> None:
        self.players.group(f"g{len(self.players.groups)}", start=start)

    @precondition(lambda self: self.players.groups)
    @rule(who=st.integers(0, 2), partition=st.integers(0, 11), batch_size=st.integers(1, 5))
    def turn(self, who: int, partition: int, batch_size: int) -> None:
        group = self.players.groups[who % len(self.players.groups)]
        there = list(group.leases())
        group.turn(there[partition % len(there)], batch_size=batch_size)

    @invariant()
    def in_order(self) -> None:
        for group in self.players.groups:
            group.assert_in_order()

    def teardown(self) -> None:
        if self.open_tags:
            self.commit()
        self.stack.close()
        sequence(self.conn)
        self.players.group("last")
        for group in self.players.groups:
            group.drain()
            group.assert_all()
            there_are = self.players.value("select partitions from gapless.topic")
            assert list(group.leases()) == list(range(there_are)), "old leases are retired"
        log = placed(self.conn)
        assert_gapless(log)
        assert_neighbours(log)


def test_random_changes(dsn: str, conn: Connection) -> None:
    Changes.dsn, Changes.conn = dsn, conn
    run_state_machine_as_test(
        Changes,
        settings=settings(
            max_examples=examples(15),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
