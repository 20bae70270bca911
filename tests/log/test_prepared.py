"""PREPARE TRANSACTION: such a publisher is simply in progress until somebody ends it."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.log.publish import publish
from gapless.log.sequence import has_to_poll, sequence, try_sleep, wake_up
from gapless.log.topics import Topic
from support.log import assert_gapless, placed, tags


@pytest.fixture
def gid(conn: Connection, topic: Topic) -> str:
    """A name for a prepared transaction; its database is in it, they are known to the whole server."""
    row = conn.execute("select current_setting('max_prepared_transactions')::int").fetchone()
    assert row is not None
    if not row[0]:
        pytest.skip("the server has max_prepared_transactions = 0")
    return conn.info.dbname


@pytest.fixture
def publisher(dsn: str) -> Iterator[Connection]:
    with connect(dsn, role="publisher") as conn:
        yield conn


def _prepare(publisher: Connection, gid: str) -> None:
    publisher.execute("begin")
    publish(publisher, "outbox", 1, key="k", event_type="prepared")
    publisher.execute(f"prepare transaction '{gid}'")


def test_a_prepared_transaction_is_delivered_when_it_is_committed(
    conn: Connection, publisher: Connection, gid: str
) -> None:
    publisher.execute("set gapless.wake = off")
    _prepare(publisher, gid)
    publisher.close()
    for n in range(3):
        publish(conn, "outbox", n, key="k", event_type=str(n))
        assert sequence(conn) == 1
    conn.execute(f"commit prepared '{gid}'")
    assert sequence(conn) == 1
    log = placed(conn)
    assert tags(log) == ["0", "1", "2", "prepared"]
    assert_gapless(log)


def test_an_awake_sequencer_lets_it_prepare_but_cannot_sleep_meanwhile(
    conn: Connection, publisher: Connection, gid: str
) -> None:
    """With the wake-up left on, the prepared transaction keeps its share of the wake lock."""
    _prepare(publisher, gid)
    assert not try_sleep(conn)
    conn.execute(f"commit prepared '{gid}'")
    assert try_sleep(conn)
    assert sequence(conn) == 1


def test_where_all_notify_a_sleeping_sequencer_makes_prepare_fail_unless_the_wake_up_is_off(
    conn: Connection, publisher: Connection, gid: str
) -> None:
    assert try_sleep(conn)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
        _prepare(publisher, gid)
    publisher.execute("rollback")
    publisher.execute("set gapless.wake = off")
    _prepare(publisher, gid)
    conn.execute(f"commit prepared '{gid}'")
    assert sequence(conn) == 1
    assert tags(placed(conn)) == ["prepared"]


def test_where_nobody_said_so_it_prepares_asleep_or_awake(
    conn: Connection, publisher: Connection, gid: str
) -> None:
    """As on a server that allows it, unless `gapless.wake` says that nobody does."""
    for wanted in (publisher, conn):
        wanted.execute("set gapless.wake = 'auto'")
    assert has_to_poll(conn)
    assert try_sleep(conn)
    _prepare(publisher, f"{gid} asleep")
    wake_up(conn)
    _prepare(publisher, f"{gid} awake")
    for when in ("asleep", "awake"):
        conn.execute(f"commit prepared '{gid} {when}'")
    assert sequence(conn) == 2
