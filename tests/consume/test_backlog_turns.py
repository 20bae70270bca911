"""When a worker reads ahead, how much, and what it has in hand then: claim by claim."""

from typing import Any

import pytest

from gapless.consume.read.backlog import BYTES_MAX, EVENTS_MAX, LOG, Backlog
from gapless.consume.read.units import FETCH_EVENTS
from gapless.consume.session import allow_commit, transaction
from gapless.errors import HoleError
from support.turn import terms
from support.world import Group, World, make_handler

EVENTS = 60
BATCH = 5


@pytest.fixture(scope="module")
def world(shared_world: World) -> World:
    """A log of units of one event."""
    made = shared_world.another_topic()
    made.units(*[1] * EVENTS)
    return made


class Turns:
    """A backlog, and the claims of a worker from it; each commits."""

    def __init__(self, group: Group, **limits: Any) -> None:
        self.group = group
        self.terms = terms(make_handler(lambda unit, conn: None), batch_size=BATCH, **limits)
        self.backlog = Backlog()

    def take(self, batch_size: int = BATCH) -> list[int]:
        """Claim; return the offsets of the events of the units."""
        conn = self.group.conn
        with transaction(conn):
            claimed, units = self.backlog.claim(conn, self.group.assignment, self.terms, batch_size)
            offsets = [event.offset for unit in units for event in unit]
            if claimed.outcome == "claimed":
                assert claimed.first_offset == offsets[0]
                assert claimed.last_offset == offsets[-1]
                allow_commit(conn, claimed.claim_xid, 1)
        return offsets

    @property
    def state(self) -> tuple[int, int]:
        """How many events are worth reading ahead with the next claim, and the units in hand."""
        return self.backlog.events, self.backlog.units


def test_a_worker_that_is_behind_reads_ahead_with_its_second_claim(group: Group) -> None:
    turns = Turns(group, stream_above_events=20)
    assert turns.state == (0, 0)
    assert turns.take() == [1, 2, 3, 4, 5]
    assert turns.state == (20, 0)
    assert turns.take() == [6, 7, 8, 9, 10]
    assert turns.state == (20, 15), "five of twenty are in hand, the others are ahead"
    for n in (11, 16, 21):
        assert turns.take() == list(range(n, n + 5))
    assert turns.state == (20, 0)
    assert turns.take() == [26, 27, 28, 29, 30]
    assert turns.state == (20, 15)
    assert turns.backlog.place is not None
    assert turns.backlog.reader is LOG


def test_what_is_read_ahead_may_be_taken_in_other_sizes(group: Group) -> None:
    turns = Turns(group, stream_above_events=20)
    turns.take()
    turns.take()
    assert turns.take(2) == [11, 12]
    assert turns.take(100) == list(range(13, 26))
    assert turns.state == (20, 0)


def test_one_that_comes_to_the_end_reads_ahead_no_more(group: Group) -> None:
    turns = Turns(group, stream_above_events=1000)
    turns.take()
    assert turns.state == (1000, 0)
    turns.take()
    assert turns.state == (1000, EVENTS - 10)
    assert turns.take(EVENTS) == list(range(11, EVENTS + 1))
    assert turns.take() == []
    turns.group.world.units(1)
    assert turns.take() == [EVENTS + 1]
    assert turns.state == (0, 0), "a batch that is not full"


def test_what_is_forgotten_is_claimed_anew(group: Group) -> None:
    turns = Turns(group, stream_above_events=20)
    turns.take()
    turns.take()
    turns.backlog.forget()
    assert turns.state == (20, 0)
    assert turns.take() == [11, 12, 13, 14, 15]


def test_without_anything_ahead_the_database_is_not_asked(group: Group) -> None:
    nobody: Any = None
    assert Backlog().claim_read(nobody, nobody, 5) is None


def test_how_much_is_worth_reading() -> None:
    """What one round trip may carry: so many events, and bytes as those before had."""

    def gauged(events: int, each_bytes: int | None, *, most: int = 10**6) -> int:
        ahead = Backlog()
        row: Any = (1, None, None, None if each_bytes is None else b"x" * each_bytes)
        ahead._gauge([row] * events, 4, most)
        return ahead.events

    assert gauged(3, 1) == 0
    assert gauged(4, None) == EVENTS_MAX
    assert gauged(4, None, most=7) == 7
    assert gauged(8, BYTES_MAX // 32) == BYTES_MAX * 8 // (BYTES_MAX // 4 + 1) == 31
    assert FETCH_EVENTS < EVENTS_MAX


def test_a_hole_ahead_is_no_hole_yet(group: Group) -> None:
    """An event that is missing behind the batch stops nobody before it is next."""
    world = group.world
    lost = world.rows(
        "select message_ids[8] from gapless.log_segment where topic_id = %s order by base_offset",
        world.topic.topic_id,
    )[0][0]
    row = "gapless.outbox_message_t where id = %s"
    with world.conn.transaction():
        world.conn.execute("drop table if exists public.gone")
        world.conn.execute(f"create table public.gone as select * from {row}", [lost])
        world.conn.execute(f"delete from {row}", [lost])
    try:
        turns = Turns(group, stream_above_events=20)
        turns.backlog.events = 20
        assert turns.take() == [1, 2, 3, 4, 5]
        assert turns.state == (20, 0), "nothing is kept of what lies beyond"
        with pytest.raises(HoleError) as caught:
            turns.take()
        assert (caught.value.first_offset, caught.value.whole) == (6, 2)
    finally:
        world.conn.execute("insert into gapless.outbox_message_t select * from public.gone")
