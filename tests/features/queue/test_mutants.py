"""Three faults of the prototype, each in the text of a function: a few steps by two sessions show them."""

import time
from collections.abc import Callable
from threading import Thread

import psycopg
import pytest
from psycopg import Connection

from support.queue import Queue
from support.queue_mutants import infect

Sessions = Callable[[], Connection]


@pytest.mark.long
@pytest.mark.parametrize("name", [None, "look before lock"])
def test_a_look_is_younger_than_the_lock(
    queue: Queue, conn: Connection, open_session: Sessions, name: str | None
) -> None:
    one, two = open_session(), open_session()
    one.execute("begin")
    mine = queue.take(one, 1)
    infect(conn, name)
    found: list[object] = []

    def take() -> None:
        try:
            found.append(queue.take(two, 1).events)
        except psycopg.errors.UniqueViolation:
            found.append(mine.events)  # the last guard: a range begins once

    two.execute("begin")
    thread = Thread(target=take)
    thread.start()
    time.sleep(0.3)
    queue.finish(one, mine)
    thread.join(30)
    assert (found == [mine.events]) == (name is not None)


@pytest.mark.parametrize("name", [None, "sweep over an unfinished range"])
def test_a_sweep_stops_at_what_is_in_hand(queue: Queue, conn: Connection, name: str | None) -> None:
    infect(conn, name)
    queue.reserve(conn, 4)
    queue.work(conn, 5)
    queue.sweep(conn)
    assert (queue.floor(conn) != 1) == (name is not None)


@pytest.mark.parametrize("name", [None, "acknowledge without token"])
def test_a_former_holder_answers_for_nothing(
    queue: Queue, conn: Connection, name: str | None
) -> None:
    infect(conn, name)
    old = queue.reserve(conn, 4)[0][0]
    conn.execute("select gapless.release('sender', 'mails', %s)", [old])
    while queue.work(conn, 5).outcome == "claimed":
        pass
    assert queue.reserve(conn, 4)[0][3] == "e1"
    if name is not None:
        assert queue.call(conn, "acknowledge", old) == 4
        return
    with pytest.raises(psycopg.Error) as refused:
        queue.call(conn, "acknowledge", old)
    assert refused.value.sqlstate == "GL003"
