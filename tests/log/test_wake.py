"""The wake handshake: a NOTIFY only while the sequencer sleeps."""

from collections.abc import Callable, Iterator

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.db.listen import heard, listen
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import WAKE_CHANNEL, sequence, try_role, try_sleep, wake_up
from gapless.log.topics import Topic

INSERT = "insert into gapless.outbox_message_t (key) values ('k')"


@pytest.fixture
def sequencer(dsn: str, topic: Topic) -> Iterator[Connection]:
    """A session that listens as the sequencer does, and is awake."""
    with connect(dsn, role="sequencer") as conn:
        listen(conn, WAKE_CHANNEL)
        yield conn


def notifications(sequencer: Connection) -> int:
    """Count those sent by transactions that have committed: a round trip collects them."""
    sequencer.execute("select 1")
    return len(heard(sequencer))


def _copy(conn: Connection) -> None:
    with conn.cursor().copy("copy gapless.outbox_message_t (key) from stdin") as copy:
        for _ in range(3):
            copy.write_row(["k"])


WAYS: dict[str, Callable[[Connection], object]] = {
    "insert": lambda conn: conn.execute(INSERT),
    "copy": _copy,
    "publish one": lambda conn: publish(conn, "outbox", 1),
    "publish some": lambda conn: publish(conn, "outbox", [NewEvent(payload=n) for n in range(3)]),
    "publish many": lambda conn: publish(conn, "outbox", (NewEvent(payload=n) for n in range(300))),
    "publish in SQL": lambda conn: conn.execute("select gapless.publish('outbox', '1')"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_publisher_wakes_a_sequencer_that_sleeps(
    conn: Connection, sequencer: Connection, way: str
) -> None:
    assert try_sleep(sequencer)
    WAYS[way](conn)
    assert notifications(sequencer) == 1


@pytest.mark.parametrize("way", WAYS)
def test_nobody_notifies_a_sequencer_that_is_awake(
    conn: Connection, sequencer: Connection, way: str
) -> None:
    WAYS[way](conn)
    assert try_sleep(sequencer)
    wake_up(sequencer)
    WAYS[way](conn)
    assert notifications(sequencer) == 0


def test_a_transaction_notifies_once(conn: Connection, sequencer: Connection) -> None:
    assert try_sleep(sequencer)
    for expected in (1, 1):
        with conn.transaction():
            for _ in range(5):
                conn.execute(INSERT)
            assert notifications(sequencer) == 0, "before COMMIT there is nothing to see"
        assert notifications(sequencer) == expected


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_open_publisher_keeps_the_sequencer_awake(
    conn: Connection, sequencer: Connection, end: str
) -> None:
    conn.execute("begin")
    conn.execute(INSERT)
    assert not try_sleep(sequencer)
    conn.execute(end)
    assert try_sleep(sequencer)
    assert notifications(sequencer) == 0


def test_a_savepoint_rolled_back_does_not_take_the_wake_up_with_it(
    conn: Connection, sequencer: Connection
) -> None:
    """ROLLBACK TO drops a NOTIFY, and a lock taken inside: the next INSERT must look again."""
    assert try_sleep(sequencer)
    conn.execute("begin")
    conn.execute("savepoint s")
    conn.execute(INSERT)
    conn.execute("rollback to s")
    conn.execute(INSERT)
    conn.execute("commit")
    assert notifications(sequencer) == 1

    wake_up(sequencer)
    conn.execute("begin")
    conn.execute("savepoint s")
    conn.execute(INSERT)
    conn.execute("rollback to s")
    assert try_sleep(sequencer), "nothing that could commit believes it awake"
    conn.execute(INSERT)
    conn.execute("commit")
    assert notifications(sequencer) == 1
    assert sequence(sequencer) == 2


def test_wake_off_leaves_it_to_the_poll(conn: Connection, sequencer: Connection) -> None:
    assert try_sleep(sequencer)
    conn.execute("set gapless.wake = off")
    conn.execute(INSERT)
    assert notifications(sequencer) == 0
    assert sequence(sequencer) == 1
    conn.execute("reset gapless.wake")
    conn.execute(INSERT)
    assert notifications(sequencer) == 1


def test_one_session_has_the_role_and_loses_it_with_its_connection(
    conn: Connection, sequencer: Connection
) -> None:
    assert try_role(sequencer)
    assert not try_role(conn)
    sequencer.close()
    assert any(try_role(conn) for _ in range(10_000)), "the server notices within a moment"
