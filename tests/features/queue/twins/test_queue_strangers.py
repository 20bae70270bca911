"""take() of a queue that a stranger keeps everybody from; and looks that wait for nobody."""

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from support.twin_queues import DUE, HELD, HERE, Notes, note, put
from support.twins import Twins

TAKE = "select c_offset from gapless.take('sender', 'orders', 4, '60 s')"
ALIVE = "select 1 from pg_stat_activity, pg_stat_clear_snapshot() where pid = %s"
ASIDE = (
    "select c_offset from gapless.reserve_aside('sender', %s, 1, %s, 4, 'me', '2199-01-01', null)"
)
GIVE_UP_S = 20
BESIDE = [("sender", "orders", 0), ("sender", "orders", 2)]


@pytest.fixture
def intruder(twins: Twins, stranger: str) -> Iterator[Connection[Any]]:
    """A session of its own that has the lock of partition 1."""
    conn = psycopg.connect(stranger, autocommit=True)
    try:
        conn.execute("select pg_advisory_lock(7427003, %s)", [twins.leases[HERE]])
        yield conn
    finally:
        conn.close()


def is_there(twins: Twins, pid: int, *, gone: bool) -> bool:
    """Ask whether a session is there; one that was told to go has a while for it."""
    give_up_s = time.monotonic() + GIVE_UP_S
    while gone and twins.conn.execute(ALIVE, [pid]).fetchall() and time.monotonic() < give_up_s:
        pass
    return bool(twins.conn.execute(ALIVE, [pid]).fetchall())


ALL: Notes = [(1, 9, HELD)]


@pytest.mark.parametrize(
    ("here", "beside", "events", "is_ended"),
    [([], ALL, 0, True), (ALL, ALL, 0, False), ([], [], 4, False), (ALL, [(1, 5, HELD)], 3, False)],
)
def test_who_keeps_a_queue_from_its_clients_is_ended(
    twins: Twins, intruder: Connection[Any], here: Notes, beside: Notes, events: int, is_ended: bool
) -> None:
    """When nothing was got, and something is open."""
    note(twins, HERE, here)
    for place in BESIDE:
        note(twins, place, beside)
    assert len(twins.conn.execute(TAKE).fetchall()) == events
    pid = intruder.info.backend_pid
    assert is_there(twins, pid, gone=is_ended) is not is_ended
    if not is_ended:
        intruder.execute("select pg_sleep(0.002)")


@pytest.mark.parametrize(
    ("group", "topic", "partition"), [("billing", "'orders'", "1"), ("billing", "null", "null")]
)
def test_a_pause_of_an_ordered_group_waits_for_no_batch(
    twins: Twins, module_dsn: str, group: str, topic: str, partition: str
) -> None:
    """Nothing is written beside a floor: who has a batch in hand is not in the way."""
    twins.conn.execute("set local lock_timeout = '2 s'")
    with connect(module_dsn, role="test") as other, other.transaction(force_rollback=True):
        other.execute(
            "select from gapless.consumer_offsets where group_id = %s for update", [group]
        )
        pauses = twins.value(f"select gapless.pause('{group}', {topic}, {partition})")
        assert pauses == (1 if topic != "null" else 2)


def test_what_the_newest_floor_has_passed_does_not_come_back(twins: Twins) -> None:
    """An older floor may still be written beside it."""
    put(twins, HERE, 3)
    twins.conn.execute(
        "insert into gapless.queue_floor (lease_no, version, next_offset, block)"
        " select lease_no, 0, 1, 4 from gapless.queue_floor"
    )
    note(twins, HERE, [(2, 2, DUE), (4, 4, DUE)])
    params = [twins.topic_ids["orders"], twins.leases[HERE]]
    found = [twins.conn.execute(ASIDE, params).fetchall() for _ in range(2)]
    assert found == [[(4,)], []]
