"""A worker died: what it had in hand is free at once, and nothing that others have since."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from psycopg import Connection

from gapless.db.queries import query
from gapless.features.queue import pool
from gapless.features.queue.pool import DEATH_AGAIN_S, DEATH_PATIENCE_S, Death, Pools
from support.queue import Queue, make, publish

Sessions = Callable[[], Connection]


class Clock:
    """Stands still, but for who moves it."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def death(
        self, lease_no: int = 0, first_offset: int = 0, last_offset: int = 0, timeline: int = 1
    ) -> Death:
        """Return the death of ann, which is now."""
        return Death("ann", timeline, lease_no, first_offset, last_offset, since_s=self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(pool, "monotonic", made)
    return made


def reserve(queue: Queue, conn: Connection, worker: str, what: str = "any") -> tuple[str, int]:
    """Reserve one event as this worker."""
    row = conn.execute(
        "select receipt, c_offset from gapless.reserve(%s, %s, null, 1, '1 h', %s, %s)",
        [queue.group, queue.topic_id, worker, what],
    ).fetchone()
    assert row is not None
    return row


def end(conn: Connection, worker: str) -> int | None:
    row = conn.execute(query("queue", "end_holder"), {"worker": worker}).fetchone()
    assert row is not None
    return row[0]


def test_what_it_reserved_is_free_and_its_receipt_counts_no_more(
    queue: Queue, conn: Connection
) -> None:
    receipt, offset = reserve(queue, conn, "ann")
    other = reserve(queue, conn, "bob")
    assert (end(conn, "ann"), end(conn, "ann")) == (1, 0)
    assert reserve(queue, conn, "bob", "aside")[1] == offset
    with pytest.raises(Exception, match="another") as refused:
        queue.call(conn, "acknowledge", receipt)
    assert getattr(refused.value, "sqlstate", "") == "GL003"
    assert queue.call(conn, "acknowledge", other[0]) == 1


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("is_letter", [True, False])
def test_its_last_transaction_is_waited_for_by_asking_again(
    queue: Queue, conn: Connection, open_session: Sessions, commits: bool, is_letter: bool
) -> None:
    """It may commit yet: then the event is handled, and nobody gets it."""
    if is_letter:
        first = reserve(queue, conn, "zoe")[0]
        conn.execute("select gapless.release('sender', 'mails', %s, delay => '1 ms')", [first])
        conn.execute("select pg_sleep(0.002)")
    last = open_session()
    receipt, offset = reserve(queue, conn, "ann", "aside" if is_letter else "any")
    last.execute("begin")
    last.execute("select gapless.acknowledge('sender', 'mails', %s)", [receipt])
    conn.execute("set lock_timeout = '500ms'")
    assert end(conn, "ann") is None
    last.execute("commit" if commits else "rollback")
    assert end(conn, "ann") == (0 if commits else 1)
    again = conn.execute(
        "select c_offset from gapless.reserve('sender', %s, null, 1, '1 h', 'bob', 'aside')",
        [queue.topic_id],
    ).fetchone()
    assert again == (None if commits else (offset,))


def test_what_another_has_since_stays_theirs(queue: Queue, conn: Connection) -> None:
    """The death is noted late: what ann was at has lapsed, and bob has it."""
    offset = reserve(queue, conn, "ann")[1]
    conn.execute("update gapless.queue_range set deadline = clock_timestamp()")
    receipt, taken = reserve(queue, conn, "bob", "aside")
    assert taken == offset
    Death("ann", 1, queue.lease, offset, offset).note(conn)
    assert queue.call(conn, "acknowledge", receipt) == 1


def test_a_death_is_told_and_looked_after_once_more_a_second_later(
    queue: Queue, conn: Connection, clock: Clock
) -> None:
    """What it asked the server for as it died is done after the first look."""
    offset = reserve(queue, conn, "ann")[1]
    death = clock.death(queue.lease, offset, offset)
    assert not death.note(conn)
    assert queue.ranges(conn) == [(offset, offset, "open")]
    late = reserve(queue, conn, "ann")[1]
    clock.now_s += DEATH_AGAIN_S - 0.01
    assert not death.note(conn)
    held = (late, late, "held")
    assert held in queue.ranges(conn)
    clock.now_s += 0.01
    assert death.note(conn)
    assert held not in queue.ranges(conn)


def test_on_nothing_there_is_no_event_to_tell_of(
    queue: Queue, conn: Connection, clock: Clock
) -> None:
    death = clock.death(0, 1, 2)
    assert not death.note(conn)
    clock.now_s += DEATH_AGAIN_S
    assert death.note(conn)
    assert queue.ranges(conn) == []


def test_what_was_given_on_another_timeline_is_another_event_now(
    queue: Queue, conn: Connection, clock: Clock
) -> None:
    assert not clock.death(queue.lease, 1, 2, timeline=2).note(conn)
    assert queue.ranges(conn) == []
    assert not clock.death(queue.lease, 1, 2).note(conn)
    assert queue.ranges(conn) == [(1, 2, "open")]


@pytest.mark.parametrize("seed", range(6))
def test_whatever_deaths_are_told_of_all_is_taken_once(conn: Connection, seed: int) -> None:
    """Also of offsets that were never given, or were before a seek: a server was promoted since."""
    draw = Random(seed)
    queue = make(conn, events=3, block=draw.choice([1, 4, 100]))
    published, handled = 3, Counter[int]()
    for _ in range(12):
        first = draw.randint(1, published + 4)
        last = first + draw.randint(0, 5)
        conn.execute("select gapless.note_death(%s, %s, %s, 'h')", [queue.lease, first, last])
        more = draw.randint(0, 4)
        publish(conn, queue.topic, published + 1, published + more)
        published += more
        for _ in range(draw.randint(0, 2)):
            for receipt, offset, *_ in queue.reserve(conn, draw.randint(1, 3)):
                handled[offset] += queue.call(conn, "acknowledge", receipt, offset)
    while taken := queue.reserve(conn, 5):
        for receipt, offset, *_ in taken:
            handled[offset] += queue.call(conn, "acknowledge", receipt, offset)
    assert handled == Counter(range(1, published + 1))
    queue.sweep(conn)
    assert queue.floor(conn) == published + 1


def test_while_its_session_is_there_it_is_told_again(
    queue: Queue, conn: Connection, open_session: Sessions, clock: Clock
) -> None:
    death, last = _busy(queue, open_session, clock)
    for _ in range(2):
        clock.now_s += DEATH_AGAIN_S
        assert not death.note(conn)
        assert queue.ranges(conn) == []
    last.execute("rollback")
    assert not death.note(conn)
    assert queue.ranges(conn) == [(death.first_offset, death.last_offset, "open")]
    assert death.note(conn)


def test_while_its_last_transaction_is_there_the_looks_do_not_count(
    queue: Queue, conn: Connection, open_session: Sessions, clock: Clock
) -> None:
    receipt, offset = reserve(queue, conn, "ann")
    last = open_session()
    last.execute("begin")
    last.execute("select gapless.acknowledge('sender', 'mails', %s)", [receipt])
    death = clock.death()
    for _ in range(2):
        assert not death.note(conn)
        clock.now_s += DEATH_AGAIN_S
    last.execute("rollback")
    assert not death.note(conn)
    assert queue.ranges(conn) == [(offset, offset, "open")]
    assert death.note(conn)


def test_patience_has_an_end(
    queue: Queue, conn: Connection, open_session: Sessions, clock: Clock
) -> None:
    death, _ = _busy(queue, open_session, clock)
    clock.now_s += DEATH_PATIENCE_S
    assert not death.note(conn)
    clock.now_s += 0.01
    assert death.note(conn)


def test_deaths_are_forgotten_once_all_is_told(
    queue: Queue, conn: Connection, clock: Clock
) -> None:
    nothing: Any = None
    pools = Pools(nothing, nothing)
    first, second = pools.deaths = [clock.death(), clock.death()]
    assert not second.note(conn)
    clock.now_s += DEATH_AGAIN_S
    pools.tell(conn)
    assert len(pools.deaths) == 1
    assert pools.deaths[0] is first


def _busy(queue: Queue, open_session: Sessions, clock: Clock) -> tuple[Death, Connection]:
    """Return a death whose session is there yet, with what it has taken, and that session."""
    last = open_session()
    last.execute("begin")
    taken = queue.take(last, most=2)
    assert taken.offsets is not None
    return clock.death(queue.lease, *taken.offsets), last
