"""What a sequencer asks in its turn: offsets, chunks, its role and its sleep; what it is told."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.db.listen import heard, listen
from gapless.log.sequence import (
    ROLE_CHANNEL,
    WAKE_CHANNEL,
    break_role,
    configure_chunks,
    create_chunks,
    give_role,
    has_to_poll,
    sequence,
    stands_still,
    try_role,
    try_sleep,
    wake_up,
)

INSERT = (
    "insert into gapless.outbox_message_t (topic_id, payload)"
    " select gapless.topic_id('orders'), '1' from generate_series(1, %s)"
)
RUN = "select max(run) from gapless.sequencer"
LOCK = "lock table gapless.guard_sequencing in exclusive mode"


@pytest.fixture(scope="module")
def mine(module_dsn: str) -> Iterator[Connection[Any]]:
    with connect(module_dsn, role="test") as conn:
        conn.execute("select gapless.create_topic('orders', 2)")
        yield conn


@pytest.fixture
def other(module_dsn: str, mine: Connection[Any]) -> Iterator[Connection[Any]]:
    """Another session; nothing is pending at the begin, and neither session holds a lock."""
    while sequence(mine):
        pass
    with connect(module_dsn, role="other") as conn:
        yield conn
    mine.execute("select pg_advisory_unlock_all()")
    mine.execute("unlisten *")
    heard(mine)


def value(conn: Connection[Any], statement: str) -> Any:
    row = conn.execute(statement.encode()).fetchone()
    return None if row is None else row[0]


@pytest.mark.parametrize("events", [1, 2, 7])
def test_a_run_tells_how_many_events_got_offsets(
    mine: Connection[Any], other: Connection[Any], events: int
) -> None:
    """None are there for who comes second, or while another session is at it."""
    other.execute(INSERT, [events])
    with other.transaction():
        other.execute(LOCK)
        assert sequence(mine) == 0
    assert sequence(mine) == events
    assert (sequence(mine), sequence(other)) == (0, 0)


def test_a_log_stands_still_while_events_wait_and_nobody_is_at_it(
    mine: Connection[Any], other: Connection[Any]
) -> None:
    assert stands_still(mine) is None
    other.execute(INSERT, [2])
    run = value(mine, RUN)
    assert (stands_still(mine), stands_still(other)) == (run, run)
    with other.transaction():
        other.execute(LOCK)
        assert stands_still(mine) is None
    assert sequence(mine) == 2
    assert stands_still(mine) is None
    other.execute(INSERT, [1])
    assert stands_still(mine) == value(mine, RUN) > run


def test_the_session_that_let_it_stand_still_is_ended(
    mine: Connection[Any], other: Connection[Any]
) -> None:
    """Unless a run was made since, or nobody has the role; who asks stays."""
    other.execute(INSERT, [1])
    run = stands_still(mine)
    assert run is not None
    assert break_role(mine, run) is False
    assert try_role(other) is True
    assert break_role(mine, run + 1) is False
    assert break_role(mine, run - 1) is False
    assert value(other, "select 1") == 1
    assert break_role(mine, run) is True
    with pytest.raises(psycopg.OperationalError):
        for _ in range(1000):
            other.execute("select pg_sleep(0.01)")
    assert sequence(mine) == 1
    assert break_role(mine, run) is False


def test_whoever_holds_other_locks_stays(
    mine: Connection[Any], other: Connection[Any], module_dsn: str
) -> None:
    other.execute(INSERT, [1])
    run = stands_still(mine)
    assert run is not None
    mine.execute("select pg_advisory_lock(7427001, 1)")
    assert try_role(other) is True
    with connect(module_dsn, role="a") as first, connect(module_dsn, role="b") as second:
        first.execute("select pg_advisory_lock(7427001, 2), pg_advisory_lock_shared(7427001, 4)")
        second.execute(
            "select pg_advisory_lock(7427002, 3), pg_advisory_lock(7427001::bigint << 32 | 3)"
        )
        assert break_role(mine, run) is True
        assert [value(each, "select 1") for each in (mine, first, second)] == [1, 1, 1]
    assert sequence(mine) == 1


def test_ids_that_were_burnt_are_no_reason_for_a_run(
    mine: Connection[Any], other: Connection[Any]
) -> None:
    """Not as long as the chunk that they are in takes others, however long it is quiet."""
    other.execute(INSERT, [1])
    assert sequence(mine) == 1
    other.execute("select nextval('gapless.outbox_message_id_seq'), pg_current_xact_id()")
    run = value(mine, RUN)
    mine.execute("update gapless.sequencer set ran_ts = ran_ts - interval '1 hour'")
    assert [sequence(mine) for _ in range(3)] == [0, 0, 0]
    assert value(mine, RUN) == run


def test_one_session_has_the_role_until_it_gives_it(
    mine: Connection[Any], other: Connection[Any]
) -> None:
    """Those who would like to have it are told."""
    listen(other, ROLE_CHANNEL)
    assert try_role(mine) is True
    assert try_role(other) is False
    other.execute("select 1")
    assert heard(other) == []
    give_role(mine)
    assert try_role(other) is True
    assert heard(other) == [""]
    assert try_role(mine) is False


def test_who_publishes_meanwhile_keeps_it_from_sleeping(
    mine: Connection[Any], other: Connection[Any]
) -> None:
    """Who does so while it sleeps wakes it, until it takes that back."""
    listen(mine, WAKE_CHANNEL)
    with other.transaction():
        other.execute(INSERT, [1])
        assert try_sleep(mine) is False
    assert try_sleep(mine) is True
    told = []
    for _ in range(2):
        other.execute(INSERT, [1])
        mine.execute("select 1")
        told.append(len(heard(mine)))
        wake_up(mine)
    assert told == [1, 0]


@pytest.mark.parametrize(("wake", "polls"), [("on", False), ("auto", True)])
def test_it_polls_where_publishers_notify_nobody(
    mine: Connection[Any], other: Connection[Any], wake: str, polls: bool
) -> None:
    other.execute(f"set gapless.wake = '{wake}'".encode())
    assert value(other, "select current_setting('max_prepared_transactions')::int > 0") is True
    assert has_to_poll(other) is polls
    assert has_to_poll(mine) is False


def test_chunks_are_made_as_large_and_as_many_as_was_said(mine: Connection[Any]) -> None:
    """How many were made is told; when all are there, none. It is taken back."""
    chunks = "select count(*) from gapless.chunk"
    before = value(mine, chunks)
    assert create_chunks(mine) == 0
    with mine.transaction(force_rollback=True):
        upto = value(mine, "select max(upto) from gapless.chunk")
        size = upto // 50_000 * 1000
        configure_chunks(mine, chunk_events=size, chunks_ahead=55)
        configured = "select chunk_events, chunks_ahead from gapless.log_config"
        assert mine.execute(configured).fetchall() == [(size, 55)]
        made = create_chunks(mine)
        assert made == value(mine, chunks) - before > 1
        assert create_chunks(mine) == 0
        strange = "select count(*) from gapless.chunk where upto > %s and upto %% %s <> 0"
        assert mine.execute(strange, [upto, size]).fetchall() == [(0,)]
