"""A hole in the log of a queue group: skip passes the missing ones, and nothing else (Q1, Q3)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from psycopg import Connection

from features.queue.holes import finish_rest, found, lose_event, names
from gapless import ops
from gapless.errors import RefusedError
from gapless.ops import GroupPlace
from gapless.status import snapshot
from gapless.status.document import to_document
from support.fleet import until
from support.queue import Queue

Sessions = Callable[[], Connection]


def skip(conn: Connection, offset: int) -> tuple[int, int, int, int]:
    done = ops.skip_hole(conn, GroupPlace.parse(f"sender/mails/0@{offset}"))
    return done.first_offset, done.last_offset, done.missing, done.passed


def error_of(conn: Connection) -> str | None:
    (row,) = snapshot(conn).partitions
    (group,) = to_document(snapshot(conn))["groups"]
    assert group["stopped"] == (row.error is not None)
    return row.error


@pytest.mark.long
def test_an_event_in_the_middle_of_a_block(queue: Queue, conn: Connection) -> None:
    """What is before it in the block is given back: a block is taken from its beginning on."""
    assert (error_of(conn), found(conn)) == (None, [])
    lose_event(conn, "e7")
    assert queue.work(conn).events == frozenset(names(1, 2, 3, 4))
    (told,) = found(conn)
    assert "sender/mails/0 does not get past offsets 7 to 7, which are missing" in told[0]
    assert told[1].endswith("gapless skip sender/mails/0@7 continues without them")
    assert "offsets 7 to 7 are missing" in str(error_of(conn))
    assert skip(conn, 7) == (7, 7, 1, 1)
    assert (error_of(conn), found(conn)) == (None, [])
    assert finish_rest(queue, conn) == names(5, 6, *range(8, 21))
    assert queue.floor(conn) == 21
    kept = "select action, detail->>'from', detail->>'to' from gapless.audit where action = 'skip'"
    assert conn.execute(kept).fetchall() == [("skip", "7", "8")]


def test_what_is_finished_or_in_hand_stays_so(queue: Queue, conn: Connection) -> None:
    receipt = queue.reserve(conn, 4)[0][0]
    for hint in (5, 9):
        assert queue.work(conn, hint).outcome == "claimed"
    lose_event(conn, *names(1, 6, *range(13, 17)))
    with pytest.raises(RefusedError, match="passed them, or they are in hand"):
        skip(conn, 1)
    with pytest.raises(RefusedError, match="passed them, or they are in hand"):
        skip(conn, 6)
    assert skip(conn, 14) == (13, 16, 4, 4)
    assert queue.ranges(conn)[0] == (1, 4, "held")
    queue.call(conn, "acknowledge", receipt)
    assert finish_rest(queue, conn) == names(17, 18, 19, 20)
    assert queue.floor(conn) == 21


def test_it_waits_for_who_has_the_block(
    queue: Queue, conn: Connection, open_session: Sessions
) -> None:
    """A worker took 5 and 6 and has not committed: they are its, and not given back."""
    other = open_session()
    assert queue.work(conn).outcome == "claimed"
    lose_event(conn, "e7")
    other.execute("begin")
    taken = queue.take(other, 5, most=2)
    assert taken.events == frozenset(names(5, 6))
    third = open_session()
    with ThreadPoolExecutor(1) as pool:
        skipping = pool.submit(skip, third, 7)
        until(
            lambda: conn.execute(
                "select 1 from pg_stat_activity where pid = %s and wait_event = 'advisory'",
                [third.info.backend_pid],
            ).fetchone(),
            "it waits for the block",
        )
        queue.finish(other, taken)
        assert skipping.result() == (7, 7, 1, 1)
    assert finish_rest(queue, conn) == names(*range(8, 21))


def test_what_retention_dropped(queue: Queue, conn: Connection) -> None:
    """What is finished above the floor is not handled again, as a seek to the beginning would."""
    assert queue.work(conn, 9).outcome == "claimed"
    conn.execute(
        "insert into gapless.log_start (topic_id, partition_id, first_offset, newest_ts)"
        " values (%s, 0, 6, now())",
        [queue.topic_id],
    )
    assert "offsets 1 to 5, which were dropped by retention" in found(conn)[0][0]
    assert "retention has dropped offsets 1 to 5" in str(error_of(conn))
    assert skip(conn, 1) == (1, 5, 5, 5)
    assert finish_rest(queue, conn) == names(6, 7, 8, *range(13, 21))
