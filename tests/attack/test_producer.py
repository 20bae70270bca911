"""Whatever a producer may insert or call: sequencing, claims, status and doctor go on (I11).

As the role gapless_producer, with all columns it may name, at all their extremes, in transactions
that commit, roll back, are prepared and left, burn ids, and while topics come and change.
"""

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import Connection, sql

import gapless
import gapless.testing
from gapless import handler
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import adopt_topic, discard_unrouted, ensure_topic, set_partitions
from gapless.ops.doctor.rounds import diagnose
from gapless.status.look import snapshot
from support.examples import examples
from support.patience import patience

COLUMNS = (
    "topic_id",
    "key",
    "host_id",
    "user_id",
    "transaction_id",
    "event_type",
    "payload",
    "headers",
    "cause",
    "correlation",
)
TEXTS = st.one_of(
    st.none(),
    st.sampled_from(
        ["", " ", "a", "A", "\n", "'", "\\", "{}", "🐘", "\u202e", "a/b/1@2", "a/b/1@2~3"]
    ),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40),
    st.integers(1, 4000).map(lambda n: "x" * n),
)
UUIDS = st.one_of(st.none(), st.sampled_from([UUID(int=0), UUID(int=2**128 - 1)]), st.uuids())
JSON = st.sampled_from(
    [
        None,
        "null",
        "1",
        "-0",
        "1e400",
        "9" * 500,
        '""',
        '"\\u0000"',
        "[]",
        "{}",
        '{"a":1,"a":2}',
        "[" * 200 + "]" * 200,
    ]
)
HEADERS = st.sampled_from(
    [None, "null", "{}", "[]", "1", '"x"', '{"a": {"b": [1, 2.5e100, null]}}']
)
EVENTS = st.fixed_dictionaries(
    {
        "topic_id": st.sampled_from([1, 1, 1, 1, 2, 2, 7, 77, 78, 2**31 - 1]),
        "key": TEXTS,
        "host_id": TEXTS,
        "user_id": TEXTS,
        "transaction_id": UUIDS,
        "event_type": TEXTS,
        "payload": JSON,
        "headers": HEADERS,
        "cause": TEXTS,
        "correlation": UUIDS,
    }
)
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.lists(EVENTS, min_size=1, max_size=5)),
        st.tuples(st.just("settings"), st.tuples(TEXTS, TEXTS)),
        st.tuples(
            st.sampled_from(["rollback", "prepare", "savepoint", "alter", "adopt", "discard"]),
            st.none(),
        ),
        st.tuples(st.just("burn"), st.integers(1, 3000)),
        st.tuples(st.just("many"), st.tuples(st.integers(1, 600), st.booleans())),
    ),
    max_size=8,
)
INSERT = sql.SQL("insert into gapless.outbox_message_t ({}) values ({})").format(
    sql.SQL(", ").join(map(sql.Identifier, COLUMNS)),
    sql.SQL(", ").join([sql.Placeholder()] * len(COLUMNS)),
)


class World:
    """A log, a producer on it, and what was told to have been committed."""

    def __init__(self, conn: Connection, dsn: str, producer: Connection) -> None:
        self.conn = conn
        self.dsn = dsn
        self.producer = producer
        self.numbers = count(2)

    def act(self, kind: str, what: Any) -> None:
        getattr(self, f"_{kind}")(what)

    def attempt(self, what: Callable[[], None]) -> None:
        """Do it; what is refused is the producer's own affair."""
        try:
            what()
        except psycopg.Error as error:
            if (error.sqlstate or "")[:2] not in {"22", "23", "25", "GL"}:
                raise
            self.producer.rollback()

    def _insert(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            self.producer.execute(INSERT, [event[name] for name in COLUMNS])

    def _many(self, what: tuple[int, bool]) -> None:
        events, are_strays = what
        self.producer.execute(
            "insert into gapless.outbox_message_t (topic_id, key, payload)"
            " select case when %s then 1000 + n else 1 end, 'k' || n, '1' from generate_series(1, %s) n",
            [are_strays, events],
        )

    def _settings(self, what: tuple[str | None, str | None]) -> None:
        """What only gapless is to say: it is anybody's to say."""
        for name, value in zip(("cause", "correlation"), what, strict=True):
            self.producer.execute(
                "select set_config(%s, %s, true)", [f"gapless.{name}", value or ""]
            )

    def _burn(self, ids: int) -> None:
        self.producer.execute(
            "select nextval('gapless.outbox_message_id_seq') from generate_series(1, %s)", [ids]
        )

    def _rollback(self, _: None) -> None:
        self.producer.rollback()

    def _savepoint(self, _: None) -> None:
        self.producer.execute("savepoint s")
        self._many((3, False))
        self.producer.execute("rollback to savepoint s")

    def _prepare(self, _: None) -> None:
        """It stays prepared until the next one."""
        self.end_prepared()
        self.producer.execute("set local gapless.wake = off")
        self._many((2, False))
        self.producer.execute("prepare transaction 'left'")

    def _alter(self, _: None) -> None:
        set_partitions(self.conn, "outbox", 1 + next(self.numbers) % 5)

    def _adopt(self, _: None) -> None:
        found = snapshot(self.conn).unrouted
        if found and found[0].topic_id:
            name = f"adopted-{next(self.numbers)}"
            adopt_topic(self.conn, found[0].topic_id, name, partitions=1)

    def _discard(self, _: None) -> None:
        discard_unrouted(self.conn)

    def end_prepared(self) -> None:
        if self.conn.execute("select 1 from pg_prepared_xacts where gid = 'left'").fetchone():
            self.conn.execute("commit prepared 'left'")

    def check(self) -> None:
        """Nothing raises, all that is committed and routed has an offset, the rest is counted."""
        assert create_chunks(self.conn) >= 0
        sequence(self.conn)
        assert self._value("gapless.pending()") is False
        look = snapshot(self.conn)
        assert not look.pending
        assert sum(each.events for each in look.unrouted) == self._value(
            "count(*) from gapless.outbox_message_t o"
            " where not exists (select from gapless.topic t where t.topic_id = o.topic_id)"
        )
        assert len(look.unrouted) <= 101
        lost = self._value(
            "count(*) from gapless.outbox_message_t o join gapless.topic t using (topic_id)"
            " where o.id not in (select unnest(s.message_ids) from gapless.log_segment s)"
        )
        assert lost == 0, "I1"
        doubled = self._value(
            "count(*) from (select unnest(s.message_ids) from gapless.log_segment s"
            " group by 1 having count(*) > 1) d"
        )
        assert doubled == 0

    def _value(self, what: str) -> Any:
        row = self.conn.execute(f"select {what}".encode()).fetchone()
        assert row is not None
        return row[0]


@pytest.fixture
def world(role: Callable[..., str], conn: Connection, dsn: str) -> Iterator[World]:
    ensure_topic(conn, "outbox", partitions=3)
    ensure_topic(conn, "topic-7", partitions=1)
    with psycopg.connect(role("gapless_producer")) as producer:
        yield World(conn, dsn, producer)
        producer.rollback()
        if conn.execute("select 1 from pg_prepared_xacts where gid = 'left'").fetchone():
            conn.execute("rollback prepared 'left'")


@pytest.mark.long
def test_whatever_it_inserts(world: World) -> None:
    handled: list[int] = []

    @handler(topic="outbox", group="g")
    def note(unit: gapless.Unit, conn: Connection) -> None:
        for event in unit:
            json.dumps(event.headers)
            handled.append(event.id)

    @settings(
        max_examples=examples(60),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=False,
    )
    @given(ACTS, st.booleans())
    def run(acts: list[tuple[str, Any]], commits: bool) -> None:
        for kind, what in acts:
            world.attempt(lambda kind=kind, what=what: world.act(kind, what))
        if commits:
            world.attempt(world.producer.commit)
        world.producer.rollback()
        world.check()

    run()
    world.end_prepared()
    gapless.testing.drain(world.dsn, note)
    world.check()
    of_the_outbox = "count(*) from gapless.outbox_message_t where topic_id = 1"
    dead = "coalesce(sum(events), 0) from gapless.dead_letter"
    assert len(handled) == len(set(handled))
    assert len(handled) + world._value(dead) == world._value(of_the_outbox)
    for finding in diagnose(world.dsn, connect_timeout_s=5):
        assert "may not look" not in finding.text, finding


@pytest.mark.long
def test_a_transaction_with_many_of_everything_is_bounded(world: World) -> None:
    """20 000 ids that nobody made, 100 000 keys, in one transaction: one run of some seconds."""
    world.producer.execute(
        "insert into gapless.outbox_message_t (topic_id, key, payload)"
        " select case when n % 5 = 0 then 1000 + n else 1 end, 'k' || n, '1'"
        " from generate_series(1, 100000) n"
    )
    world.producer.commit()
    world.conn.execute("select set_config('statement_timeout', %s, false)", [f"{patience(30)}s"])
    assert sequence(world.conn) == 80_000
    world.check()


@pytest.mark.long
def test_abandoned_prepared_transactions_and_open_ones_delay_only_their_own(world: World) -> None:
    world._many((2, False))
    world._prepare(None)
    world.producer.execute("select 1")
    world._many((5, True))
    for n in range(3):
        gapless.publish(world.conn, "topic-7", n)
        assert sequence(world.conn) == 1
    (named,) = [
        each for each in diagnose(world.dsn, connect_timeout_s=5) if each.name == "prepared"
    ]
    assert "left" in named.text or named.level == "ok"
