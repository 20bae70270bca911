"""A worker died: what it had in hand is free at once, and nothing that others have since."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg import Connection

from gapless.db.queries import query
from gapless.worker.pool import Death
from support.queue import Queue

Sessions = Callable[[], Connection]


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
    Death("ann", queue.lease, offset, offset).note(conn)
    assert queue.call(conn, "acknowledge", receipt) == 1


def test_there_is_a_second_look(
    queue: Queue, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it asked the server for as it died is done after the first."""
    monkeypatch.setattr("gapless.worker.pool.DEATH_AGAIN_S", 0.0)
    death = Death("ann", 0, 0, 0)
    assert not death.note(conn)
    offset = reserve(queue, conn, "ann")[1]
    assert death.note(conn)
    assert reserve(queue, conn, "bob", "aside")[1] == offset
