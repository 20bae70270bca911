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
    break_role,
    give_role,
    has_to_poll,
    sequence,
    stands_still,
    try_role,
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


@pytest.mark.parametrize(("wake", "polls"), [("on", False), ("auto", True)])
def test_it_polls_where_publishers_notify_nobody(
    mine: Connection[Any], other: Connection[Any], wake: str, polls: bool
) -> None:
    other.execute(f"set gapless.wake = '{wake}'".encode())
    assert value(other, "select current_setting('max_prepared_transactions')::int > 0") is True
    assert has_to_poll(other) is polls
    assert has_to_poll(mine) is False
