"""What `gapless doctor` says of queue groups; each remedy is tried, and helps."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg import Connection

from features.queue.holes import finish_rest, found, names
from gapless import ops
from gapless.ops import GroupPlace
from support.queue import Queue

Sessions = Callable[[], Connection]
AGE = "update gapless.outbox_message_t set created_ts = now() - interval '1 hour'"


@pytest.fixture
def old(queue: Queue, conn: Connection) -> Queue:
    """The queue, its events an hour old."""
    conn.execute(AGE)
    return queue


def test_nobody_takes_them(old: Queue, conn: Connection, open_session: Sessions) -> None:
    ((text, remedy),) = found(conn)
    assert text == "sender/mails/0: 20 events open, the oldest for 60 min, and no worker"
    assert remedy == "start one: gapless run; by hand: gapless queue take sender/mails"
    other = open_session()
    other.execute("set application_name = 'gapless/queue worker sender'")
    assert found(conn) == [], "there is a worker"
    other.close()
    ops.take(conn, "sender", "mails", max_events=20)
    assert found(conn) == [], "somebody takes them"


def test_in_hand_for_long(old: Queue, conn: Connection) -> None:
    """A straggler at the floor, with a holder whose name is hostile: the remedy is SQL that runs."""
    old.reserve(conn, 4)
    conn.execute(
        "update gapless.queue_range set since_ts = now() - interval '20 min', holder = 'o''leary; drop'"
    )
    for hint in (5, 9):
        old.work(conn, hint)
    ((text, remedy),) = found(conn)
    assert text == (
        "sender/mails/0: o'leary; drop has had offsets 1 to 4 in hand for 20 min; 8 events above the "
        "floor are finished, and retention keeps the log from offset 1 on"
    )
    said = remedy.removeprefix("if it is gone: ").removesuffix(" gives all it has to others")
    assert conn.execute(said).fetchone() == (1,)
    assert finish_rest(old, conn) == names(*range(1, 5), *range(13, 21))
    assert found(conn) == []


def test_a_transaction_that_stays_open(
    old: Queue, conn: Connection, open_session: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gapless.features.queue.checks._HELD_S", 0.0)
    other = open_session()
    other.execute("begin")
    old.take(other)
    ((text, remedy),) = found(conn)
    assert text.startswith(
        f"sender/mails/0: pid {other.info.backend_pid} has had events in hand for "
    )
    conn.execute(remedy.removesuffix(" gives them to others"))
    with pytest.raises(psycopg.OperationalError):
        other.execute("select 1")
    assert finish_rest(old, conn) == names(*range(1, 21))


def test_all_that_is_left_waits(old: Queue, conn: Connection) -> None:
    while rows := old.reserve(conn, 4):
        if rows[0][1] == 1:
            conn.execute(
                "select gapless.release('sender', 'mails', %s, delay => '2 h')", [rows[0][0]]
            )
        else:
            old.call(conn, "acknowledge", rows[0][0])
    old.sweep(conn)
    ((text, remedy),) = found(conn)
    assert text.startswith("sender/mails/0: all that is left, 4 units, waits for another attempt")
    assert remedy == "gapless dlq redrive --group sender --state waiting --yes tries it now"
    for first in (1, 2, 3, 4):
        ops.redrive_unit(conn, GroupPlace.parse(f"sender/mails/0@{first}"))
    assert finish_rest(old, conn) == names(1, 2, 3, 4)
    assert found(conn) == []


def test_a_floor_that_nobody_moved(old: Queue, conn: Connection) -> None:
    for hint in (1, 5, 9, 13, 17):
        old.work(conn, hint)
    ((text, remedy),) = found(conn)
    assert text.startswith(
        "sender/mails/0: all is finished, and no worker moved the floor; 20 events"
    )
    conn.execute(remedy.removeprefix("start a worker, or: "))
    assert (old.floor(conn), found(conn)) == (21, [])


def test_open_in_front_of_what_is_taken(queue: Queue, conn: Connection) -> None:
    """As a version before left it, that noted deaths at offsets of a server that was gone."""
    assert found(conn) == []
    conn.execute(
        "insert into gapless.queue_range (first_offset, last_offset, lease_no, holder)"
        " values (4, 4, %s, 'h')",
        [queue.lease],
    )
    ((text, remedy),) = found(conn)
    assert text == (
        "sender/mails/0: offsets 1 to 3 are open, in front of taken events of their block; 1 event "
        "above the floor is finished, and retention keeps the log from offset 1 on"
    )
    assert remedy == "gapless queue take sender/mails takes them, once nothing newer is open"
    taken = [
        each.offset for _ in range(5) for each in ops.take(conn, "sender", "mails", max_events=4)
    ]
    assert taken == [*range(5, 21), 1, 2, 3]
    assert found(conn) == []


def test_what_is_paused_rests(old: Queue, conn: Connection) -> None:
    ops.pause(conn, GroupPlace(group="sender"))
    assert found(conn) == []
