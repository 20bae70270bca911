"""I1 to I5 under random interleavings: open sessions on one thread, checked after each sequencing.

The model knows only what the sessions did and in which order, not how the sequencer works.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from uuid import UUID

import pytest
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
from psycopg.pq import TransactionStatus

from gapless.db.connect import connect
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic
from support.examples import examples
from support.log import (
    Log,
    Published,
    assert_all_there,
    assert_gapless,
    assert_kept,
    assert_neighbours,
    assert_ordered,
    placed,
)

SESSIONS = 3
RARELY = st.sampled_from([False, False, False, True])
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 2]),  # topic_id
        st.sampled_from(["a", "a", "b", None]),  # key
        st.sampled_from([None, "h"]),  # host_id
        st.sampled_from([None, None, UUID(int=1), UUID(int=2)]),  # transaction_id
    ),
    min_size=1,
    max_size=3,
)
INSERT = (
    "insert into gapless.outbox_message_t (topic_id, key, host_id, transaction_id, event_type)"
    " values (%s, %s, %s, %s, %s)"
)


class Producer:
    """One session and what its open transaction has done; savepoints nest."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.transaction = ""
        self.events: list[Published] = []
        self.savepoints: list[int] = []  # how many events there were

    @property
    def in_transaction(self) -> bool:
        return self.conn.info.transaction_status == TransactionStatus.INTRANS

    def forget(self) -> list[Published]:
        events, self.events = self.events, []
        self.savepoints.clear()
        return events


class World:
    """The sessions that all examples share: opening them anew would cost more than an example."""

    def __init__(self, producers: list[Producer], sequencer: Connection) -> None:
        self.producers = producers
        self.sequencer = sequencer
        self.clock = count(1)
        self.names = (f"e{n}" for n in count(1))


@pytest.fixture
def world(dsn: str) -> Iterator[World]:
    with ExitStack() as stack:
        conns = [stack.enter_context(connect(dsn, role="test")) for _ in range(SESSIONS + 1)]
        ensure_topic(conns[0], "outbox", partitions=2)
        ensure_topic(conns[0], "second", partitions=1)
        conns[0].execute("create index on gapless.log_segment (run)")
        create_chunks(conns[0])
        yield World([Producer(conn) for conn in conns[1:]], conns[0])


class Interleavings(RuleBasedStateMachine):
    """Random steps of SESSIONS sessions and a sequencer."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.published: list[Published] = []
        self.prepared: dict[str, list[Published]] = {}
        self.log: Log = {}

    @initialize()
    def note_where_the_log_stands(self) -> None:
        sequence(self.world.sequencer)
        heads = self.world.sequencer.execute(
            "select topic_id, partition_id, max(last_offset) + 1 from gapless.log_segment group by 1, 2"
        )
        self.first = {(topic, partition): offset for topic, partition, offset in heads}
        row = self.world.sequencer.execute("select max(run) from gapless.sequencer").fetchone()
        assert row is not None
        self.after_run: int = row[0]

    @rule(n=st.integers(0, SESSIONS - 1), alone=RARELY, events=EVENTS)
    def insert(self, n: int, alone: bool, events: list[tuple[object, ...]]) -> None:
        """Insert into the session's transaction, opened if need be; alone: in autocommit."""
        producer = self.world.producers[n]
        if not producer.in_transaction and not alone:
            producer.conn.execute("begin")
            producer.transaction = f"t{next(self.world.clock)}"
        for columns in events:
            tag = next(self.world.names)
            transaction = producer.transaction if producer.in_transaction else tag
            event = Published(tag=tag, transaction=transaction, inserted=next(self.world.clock))
            producer.conn.execute(INSERT, [*columns, tag])
            producer.events.append(event)
            if not producer.in_transaction:
                self._committed(producer.forget())

    @precondition(lambda self: self.open)
    @rule(data=st.data(), step=st.sampled_from(["savepoint", "release", "rollback to"]))
    def savepoint(self, data: st.DataObject, step: str) -> None:
        producer = data.draw(st.sampled_from(self.open))
        if step == "savepoint" or not producer.savepoints:
            producer.conn.execute(f"savepoint s{len(producer.savepoints)}")
            producer.savepoints.append(len(producer.events))
            return
        kept = producer.savepoints.pop()
        producer.conn.execute(f"{step} s{len(producer.savepoints)}")
        if step == "rollback to":
            self.published += producer.events[kept:]
            del producer.events[kept:]

    @precondition(lambda self: self.open)
    @rule(data=st.data(), how=st.sampled_from(["commit", "commit", "rollback", "prepare"]))
    def end(self, data: st.DataObject, how: str) -> None:
        producer = data.draw(st.sampled_from(self.open))
        if how == "prepare" and len(self.prepared) < 3:
            gid = f"{producer.conn.info.dbname}.{next(self.world.clock)}"
            producer.conn.execute(f"prepare transaction '{gid}'")
            self.prepared[gid] = producer.forget()
        elif how == "rollback":
            producer.conn.execute("rollback")
            self.published += producer.forget()
        else:
            producer.conn.execute("commit")
            self._committed(producer.forget())

    @precondition(lambda self: self.prepared)
    @rule(data=st.data(), keep=st.booleans())
    def end_prepared(self, data: st.DataObject, keep: bool) -> None:
        self._end_prepared(data.draw(st.sampled_from(sorted(self.prepared))), keep)

    @rule()
    def sequence(self) -> None:
        done = sequence(self.world.sequencer)
        log = placed(self.world.sequencer, after_run=self.after_run)
        known = self.published + [
            event
            for events in [p.events for p in self.world.producers] + list(self.prepared.values())
            for event in events
        ]
        assert_kept(self.log, log)
        assert done == sum(map(len, log.values())) - sum(map(len, self.log.values()))
        assert_gapless(log, self.first)
        assert_all_there(log, known)
        assert_neighbours(log)
        assert_ordered(log, known)
        self.log = log

    @property
    def open(self) -> list[Producer]:
        return [producer for producer in self.world.producers if producer.in_transaction]

    @invariant()
    def no_session_is_broken(self) -> None:
        for producer in self.world.producers:
            assert producer.conn.info.transaction_status != TransactionStatus.INERROR

    def teardown(self) -> None:
        for producer in self.world.producers:
            producer.conn.rollback()
            producer.forget()
        for gid in list(self.prepared):
            self._end_prepared(gid, keep=False)

    def _end_prepared(self, gid: str, keep: bool) -> None:
        how = "commit" if keep else "rollback"
        self.world.sequencer.execute(f"{how} prepared '{gid}'")
        events = self.prepared.pop(gid)
        if keep:
            self._committed(events)
        else:
            self.published += events

    def _committed(self, events: list[Published]) -> None:
        now = next(self.world.clock)
        for event in events:
            event.committed = now
        self.published += events


def test_any_interleaving_gives_a_gapless_ordered_log(world: World) -> None:
    class Here(Interleavings):
        def __init__(self) -> None:
            super().__init__(world)

    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=examples(300),
            stateful_step_count=40,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
