"""publish --wait group:NAME: it ends when that group has handled what was published, of either kind."""

import psycopg
import pytest

from gapless import Unit, handler
from gapless.testing import drain
from support.fleet import until
from support.queue import Queue, make

TAKE = """
select receipt, c_offset from gapless.take('sender', 'mails', 1) where payload ->> 'n' = %s
"""


@pytest.fixture
def queue(conn: psycopg.Connection) -> Queue:
    """Four events, and nobody who takes them."""
    return make(conn, events=4, block=4)


def stored(conn: psycopg.Connection) -> int:
    row = conn.execute("select count(*) from gapless.outbox_message_t").fetchone()
    assert row is not None
    return int(row[0])


def finish(queue: Queue, conn: psycopg.Connection, number: int, verb: str = "acknowledge") -> None:
    """Take the next event, which has this number in its payload, and answer for it."""
    params = [str(number)]
    found = until(lambda: conn.execute(TAKE, params).fetchall(), "it is there to take")
    ((receipt, offset),) = found
    more = ["bad address"] if verb == "reject" else []
    conn.execute(
        f"select gapless.{verb}('sender', 'mails', %s{', %s' * len(more)}, c_offset => %s)",
        [receipt, *more, offset],
    )


@pytest.mark.long
@pytest.mark.parametrize("is_file", [False, True])
def test_a_queue_group_above_its_floor(start, conn, queue: Queue, is_file: bool) -> None:
    """Events 1 to 4 stay in somebody's hand: that the floor stands still does not matter."""
    queue.reserve(conn, 4)
    words = ["-", "--batch", "1"] if is_file else ['{"n": 0}']
    process = start("publish", "mails", *words, "--wait", "group:sender")
    if is_file:
        process.stdin.write('{"payload": {"n": 0}}\n{"payload": {"n": 1}}\n')
        process.stdin.close()
        process.stdin = None  # communicate() would flush it
    for number in range(1 + is_file):
        until(
            lambda n=number: stored(conn) > 4 + n or process.poll() is not None, "it is published"
        )
        assert process.poll() is None, process.stderr.read()
        finish(queue, conn, number)
    assert process.wait(timeout=60) == 0
    assert "group sender has handled all of it" in process.stderr.read()
    assert queue.floor(conn) == 1


@pytest.mark.long
def test_a_dead_letter_is_a_failure(start, conn, queue: Queue) -> None:
    queue.reserve(conn, 4)
    process = start("publish", "mails", '{"n": 0}', "--wait", "group:sender", "--timeout", "60")
    until(lambda: stored(conn) == 5, "it is published")
    finish(queue, conn, 0, "reject")
    assert process.wait(timeout=60) == 1
    assert "group sender has dead letters of 1 transaction of it" in process.stderr.read()


@pytest.mark.long
def test_a_timeout_is_a_failure_and_the_event_stays(gapless, conn, queue: Queue) -> None:
    done = gapless("publish", "mails", "1", "--wait", "group:sender", "--timeout", "1")
    assert done.code == 1
    assert "group sender has not handled transaction" in done.err
    assert "the group has not come to it yet" in done.err
    assert stored(conn) == 5


@pytest.mark.long
def test_an_ordered_group(start, conn, dsn, queue: Queue) -> None:
    @handler(topic="mails", group="ledger")
    def book(unit: Unit, _conn: psycopg.Connection) -> None:
        assert len(unit)

    conn.execute("select gapless.create_group('ledger', 'mails')")
    process = start("publish", "mails", "1", "--wait", "group:ledger")
    until(lambda: stored(conn) == 5, "it is published")
    drain(dsn, book)
    assert process.wait(timeout=60) == 0


def test_the_flag_alone_takes_no_word(gapless, conn, queue: Queue) -> None:
    """It may stand before the topic and before the payload, as it could before it had a value."""
    for words in (["--wait", "mails", "1"], ["mails", "--wait", "1"], ["mails", "1", "--wait"]):
        done = gapless("publish", *words)
        assert (done.code, done.err) == (0, "gapless: all of it has offsets\n")
    assert stored(conn) == 7
