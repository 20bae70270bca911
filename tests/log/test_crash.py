"""The server dies and comes back: what was committed is in the log once, the rest is not."""

from collections.abc import Iterator

import pytest

from gapless.db.connect import connect
from gapless.db.migrate import migrate
from gapless.features.server.postgres.cluster import Cluster
from gapless.features.server.server import throwaway_cluster
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic
from support.log import assert_gapless, assert_kept, placed, tags


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server that keeps what it has answered COMMIT to."""
    options = {"max_prepared_transactions": "10", "synchronous_commit": "on", "autovacuum": "off"}
    with throwaway_cluster(options) as made:
        with connect(made.dsn(), role="test") as conn:
            migrate(conn)
            create_chunks(conn)
            ensure_topic(conn, "outbox", partitions=4)
        yield made


def test_the_log_survives_a_crash_of_the_server(cluster: Cluster) -> None:
    conn = connect(cluster.dsn(), role="test")
    unfinished = connect(cluster.dsn(), role="unfinished")
    for n in range(20):
        publish(conn, "outbox", n, key=str(n), event_type=f"sequenced {n}")
    sequence(conn)
    before = placed(conn)
    unfinished.execute("set gapless.wake = off; begin")
    publish(unfinished, "outbox", 1, key="k", event_type="prepared")
    unfinished.execute("prepare transaction 'survivor'")
    unfinished.execute("begin")
    publish(unfinished, "outbox", 1, key="k", event_type="never committed")
    for n in range(20):
        publish(conn, "outbox", n, key=str(n), event_type=f"pending {n}")
    cluster.restart("immediate")
    conn.close()
    unfinished.close()

    with connect(cluster.dsn(), role="test") as conn:
        assert_kept(before, placed(conn))
        assert sequence(conn) == 20
        publish(conn, "outbox", 1, key="k", event_type="after")
        assert sequence(conn) == 1
        conn.execute("commit prepared 'survivor'")
        assert sequence(conn) == 1
        log = placed(conn)
    assert_kept(before, log)
    assert_gapless(log)
    expected = [f"{when} {n}" for when in ("sequenced", "pending") for n in range(20)]
    assert sorted(map(str, tags(log))) == sorted([*expected, "prepared", "after"])
