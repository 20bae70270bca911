"""Offsets for whoever cannot wait for a supervisor: given where no sequencer is active, and not beside one."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.errors import GaplessError
from gapless.log import catch_up as module
from gapless.log.catch_up import (
    catch_up,
    is_sequenced,
    is_sequencer_active,
    own_xid,
    sequence_all,
    sequence_if_alone,
    wait_until_sequenced,
)
from gapless.log.publish import publish
from gapless.log.sequence import give_role, sequence, try_role
from gapless.log.topics import ensure_topic
from support.chunks import near_the_end, small_chunks
from support.clock import shift

Sessions = tuple[Connection[Any], Connection[Any]]
PENDING = 3
CHUNKS = "select count(*) from gapless.chunk"


@pytest.fixture
def two(dsn: str, conn: Connection[Any]) -> Iterator[Sessions]:
    """Two sessions of a log in which three events wait for offsets."""
    ensure_topic(conn, "orders", partitions=2)
    small_chunks(conn)
    publish_some(conn)
    with connect(dsn, role="other") as other:
        yield conn, other


def publish_some(conn: Connection[Any]) -> int:
    with conn.transaction():
        for n in range(PENDING):
            publish(conn, "orders", n, key=f"k{n}")
        return own_xid(conn)


def sequenced(conn: Connection[Any]) -> int:
    return value(conn, "select coalesce(sum(cardinality(message_ids)), 0) from gapless.log_segment")


def value(conn: Connection[Any], statement: str) -> int:
    row = conn.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def test_who_is_active_is_told_to_every_session(two: Sessions) -> None:
    _, other = two
    assert [is_sequencer_active(each) for each in two] == [False, False]
    assert try_role(other)
    assert [is_sequencer_active(each) for each in two] == [True, True]
    give_role(other)
    assert [is_sequencer_active(each) for each in two] == [False, False]


def test_a_transaction_is_sequenced_once_a_run_has_seen_it(two: Sessions) -> None:
    conn, other = two
    first = publish_some(conn)
    assert not is_sequenced(other, first)
    sequence(conn)
    second = publish_some(conn)
    assert (is_sequenced(other, first), is_sequenced(other, second)) == (True, False)


def test_one_that_is_alone_gives_offsets_and_says_so(two: Sessions) -> None:
    conn, other = two
    assert try_role(other)
    assert sequence_if_alone(conn) is False
    assert sequenced(conn) == 0
    give_role(other)
    assert sequence_if_alone(conn) is True
    assert sequenced(conn) == PENDING
    assert sequence_if_alone(conn) is True, "also if there was nothing to do"


@pytest.mark.parametrize("do", [sequence_if_alone, sequence_all, catch_up])
def test_where_nothing_waits_it_ends(
    two: Sessions, do: Callable[[Connection[Any]], object]
) -> None:
    conn, _ = two
    for _ in range(2):
        do(conn)
        assert sequenced(conn) == PENDING


@pytest.mark.parametrize("do", [sequence_if_alone, sequence_all, catch_up])
def test_what_is_due_is_among_it(two: Sessions, do: Callable[[Connection[Any]], object]) -> None:
    conn, _ = two
    publish(conn, "orders", "later", deliver_in=10)
    publish(conn, "orders", "much later", deliver_in=1000)
    shift(conn, 11)
    do(conn)
    assert sequenced(conn) == PENDING + 1


@pytest.mark.parametrize("do", [sequence_if_alone, sequence_all, catch_up])
def test_chunks_are_made_ahead(two: Sessions, do: Callable[[Connection[Any]], object]) -> None:
    conn, _ = two
    near_the_end(conn, events=1)
    before = value(conn, CHUNKS)
    publish_some(conn)
    do(conn)
    assert value(conn, CHUNKS) > before


def test_beside_a_sequencer_or_a_lock_it_does_nothing(two: Sessions) -> None:
    conn, other = two
    assert try_role(other)
    catch_up(conn)
    assert sequenced(conn) == 0
    give_role(other)
    publish(conn, "orders", "later", deliver_in=0.001)
    shift(conn, 1)
    with other.transaction():
        other.execute("lock table gapless.scheduled in access exclusive mode")
        catch_up(conn)
        assert sequenced(conn) == PENDING, "what waited first is not kept back by what is due"
        assert conn.execute("show lock_timeout").fetchone() == ("0",), "it is as it was"
    catch_up(conn)
    assert sequenced(conn) == PENDING + 1


class Clock:
    """Time passes by sleeping alone; somebody gives offsets after so many sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, other: Connection[Any]) -> None:
        self.now_s = 1000.0
        self.slept_s: list[float] = []
        self.sequences_after = 10**6
        self._other = other
        monkeypatch.setattr(module, "sleep", self._sleep)
        monkeypatch.setattr(module, "monotonic", lambda: self.now_s)

    def _sleep(self, wait_s: float) -> None:
        self.slept_s.append(wait_s)
        self.now_s += wait_s
        if len(self.slept_s) == self.sequences_after:
            sequence(self._other)


@pytest.fixture
def clock(two: Sessions, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch, two[1])


def test_whoever_waits_gives_up_in_the_end_and_says_where_it_stands(
    two: Sessions, clock: Clock
) -> None:
    conn, other = two
    xid = publish_some(conn)
    assert try_role(other)
    with pytest.raises(GaplessError) as caught:
        wait_until_sequenced(conn, xid, timeout_s=2.0)
    assert str(caught.value) == (
        "after 2 s the events have no offsets yet: they are published, but "
        "the sequencer does not get to them; gapless doctor says why"
    )
    assert 2.0 < sum(clock.slept_s) < 2.1
    clock.slept_s.clear()
    with pytest.raises(GaplessError, match=r"^after 0 s the events"):
        wait_until_sequenced(conn, xid, timeout_s=0.0)
    assert clock.slept_s == [0.001], "its time is not over before it is exceeded"


def test_whoever_is_alone_waits_for_nobody(two: Sessions, clock: Clock) -> None:
    conn, _ = two
    xid = publish_some(conn)
    wait_until_sequenced(conn, xid, timeout_s=60.0)
    assert len(clock.slept_s) == 1
    wait_until_sequenced(conn, xid, timeout_s=60.0)
    assert len(clock.slept_s) == 1, "what has its offsets is not waited for"
