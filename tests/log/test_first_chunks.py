"""The first chunks of a log whose schema was only migrated, and who publishes in that moment.

A publisher that has decided for the default chunk would fail once a chunk takes its id.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, sleep

import psycopg
import pytest
from psycopg import Connection

from gapless.db.connect import connect, is_transient
from gapless.db.migrate import migrate
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic
from support.patience import patience

PLACES = "select tableoid::regclass::text from gapless.outbox_message_t order by id"
FIRST = "gapless.outbox_message_1"


@pytest.fixture
def bare(empty_dsn: str) -> Iterator[Connection]:
    """A session in a database with the schema, a topic, and no chunk."""
    with connect(empty_dsn, role="test") as made:
        migrate(made)
        ensure_topic(made, "outbox", partitions=4)
        yield made


@pytest.fixture
def publisher(empty_dsn: str, bare: Connection) -> Iterator[Connection]:
    with connect(empty_dsn, role="publisher") as made:
        yield made


def _await(conn: Connection, other: Connection, locktype: str) -> None:
    """Return when the other session waits for a lock."""
    waits = "select from pg_locks where pid = %s and locktype = %s and not granted"
    give_up_s = monotonic() + patience(30)
    while conn.execute(waits, [other.info.backend_pid, locktype]).fetchone() is None:
        assert monotonic() < give_up_s
        sleep(0.01)


def test_the_first_event_is_published_while_they_are_made(
    bare: Connection, publisher: Connection
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with bare.transaction():
            assert create_chunks(bare) > 0
            event = pool.submit(publish, publisher, "outbox", 1)
            _await(bare, publisher, "relation")
        event.result()
    assert bare.execute(PLACES).fetchall() == [(FIRST,)]
    assert sequence(bare) == 1


def test_none_is_made_beside_a_publisher_that_draws_the_first_id(
    bare: Connection, publisher: Connection
) -> None:
    """It has looked which chunks there are, and has no id yet."""
    slow = (
        "insert into gapless.outbox_message_t (topic_id, payload)"
        " select 1, '1' from (select pg_advisory_lock(9) offset 0) s"
    )
    bare.execute("select pg_advisory_lock(9)")
    with ThreadPoolExecutor(1) as pool:
        event = pool.submit(publisher.execute, slow)
        try:
            _await(bare, publisher, "advisory")
            with pytest.raises(psycopg.errors.LockNotAvailable) as refused:
                create_chunks(bare)
        finally:
            bare.execute("select pg_advisory_unlock(9)")
        event.result()
    assert is_transient(refused.value), "the sequencer goes on, and tries again"
    assert create_chunks(bare) > 0
    assert sequence(bare) == 1
