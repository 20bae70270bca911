"""Positions of queries and pipelines: they move forward, once, and never a handlers' group."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from psycopg import Connection

from gapless.db.connect import connect
from gapless.errors import GaplessError, UsageError
from gapless.features.spark.options import read_options
from gapless.features.spark.pipeline import lease, position
from gapless.features.spark.pipeline.run import read_of
from gapless.features.spark.place import find_ends, record_position, wait_for_offsets
from gapless.features.spark.source import plan_batch
from gapless.features.spark.stream import StreamReader
from gapless.features.spark.watched import watched
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic, set_partitions
from support.group import owner
from support.pipelines import pipeline
from support.servers import until

PIPELINE = pipeline()


@pytest.fixture
def registered(conn: Connection, topic: Topic) -> Connection:
    for n in range(12):
        publish(conn, "outbox", {"n": n}, key=str(n))
    with pytest.raises(UsageError, match='"elsewhere" does not exist'):
        position.register_pipeline(conn, PIPELINE)
    ensure_topic(conn, "elsewhere", partitions=1)
    position.register_pipeline(conn, PIPELINE)
    return conn


def test_a_batch_ends_once(registered: Connection) -> None:
    batch = position.next_batch(registered, PIPELINE)
    assert batch.events == 5
    position.end_batch(registered, "p", batch)
    with pytest.raises(GaplessError, match="not at batch 0 any more"):
        position.end_batch(registered, "p", batch)
    moved = replace(batch, number=1)  # the right number, but the offsets of before
    with pytest.raises(GaplessError, match="moved to other offsets"):
        position.end_batch(registered, "p", moved)
    assert position.next_batch(registered, PIPELINE).start == batch.end
    (standing,) = position.list_pipelines(registered)
    assert (standing.batches, standing.events, standing.lag) == (1, 5, 7)


def test_a_partition_that_is_new_since_a_batch_was_fixed_is_not_in_it(
    registered: Connection, dsn: str
) -> None:
    """Its position does not move with the batch: its events would be in the next one, too."""
    batch = position.next_batch(registered, replace(PIPELINE, batch_events=100))
    set_partitions(registered, "outbox", 16)
    for n in range(40):
        publish(registered, "outbox", {}, key=str(n))
    options = read_options(read_of(PIPELINE, batch, dsn))
    (ranges,) = plan_batch(options).tasks
    assert sum(each.events for each in ranges) == batch.events == 12


def test_files_that_are_written_down_are_kept(registered: Connection) -> None:
    batch = position.next_batch(registered, PIPELINE)
    position.plan_files(registered, "p", batch, [["a", "b"]])
    with pytest.raises(GaplessError, match="has moved on"):
        position.plan_files(registered, "p", batch, [["c", "d"]])
    for n in range(12):
        publish(registered, "outbox", {"n": n}, key=str(n))
    again = position.next_batch(registered, PIPELINE)
    assert (again.start, again.end) == (batch.start, batch.end), "the batch that was written"
    with pytest.raises(UsageError, match="on their way"):
        position.reset_pipeline(registered, "p", "earliest")


def test_the_events_read_are_told_while_it_runs(registered: Connection, dsn: str) -> None:
    """Nothing before all of them are known; without a session, nothing at all."""
    sequence(registered)
    told: list[tuple[int, int]] = []
    with watched(dsn, ["p", "not yet"], lambda *read: told.append(read)):
        with watched(dsn, ["p"], lambda *read: told.append(read)):
            assert until(lambda: told[-1:] == [(0, 12)])
            position.end_batch(registered, "p", position.next_batch(registered, PIPELINE))
            assert until(lambda: told[-1] == (5, 12))
        count = len(told)
    assert len(told) == count
    with watched(f"{dsn} password=x port=1", ["p"], lambda *read: told.append(read)):
        pass
    assert len(told) == count


def test_the_next_run_waits_for_the_end_of_the_last(
    registered: Connection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session ends at the server later than whoever closed it goes on."""
    monkeypatch.setattr(lease, "ENDS_MS", 60_000)
    waits = "select exists (select from pg_locks where not granted and pid = %s)"
    with connect(dsn, role="test") as last, ThreadPoolExecutor() as pool:
        lease.lock_pipeline(last, "p")
        following = pool.submit(lease.lock_pipeline, registered, "p")
        waiter = registered.info.backend_pid
        assert until(lambda: last.execute(waits, (waiter,)).fetchone() == (True,))
        last.close()
        following.result()


def test_a_handlers_group_is_not_moved(conn: Connection, dsn: str, topic: Topic) -> None:
    publish(conn, "outbox", {}, key="a")
    wait_for_offsets(conn)
    ends = find_ends(conn, read_options({"url": dsn, "subscribe": "outbox"}))
    at = {"outbox": {end.partition_id: end.next_offset for end in ends}}
    record_position(conn, "query", at)
    record_position(conn, "query", {"outbox": {end.partition_id: 1 for end in ends}})
    rows = conn.execute("select sum(next_offset) from gapless.consumer_offsets").fetchone()
    assert rows == (5,), "a position never goes back"
    with owner(dsn, "billing", topic), pytest.raises(UsageError, match="belongs to handlers"):
        record_position(conn, "billing", at)
    with pytest.raises(UsageError, match="groupId"):
        record_position(conn, "not a name", at)


def test_a_checkpoint_that_a_failover_has_passed(dsn: str, conn: Connection) -> None:
    """A reader of lost events is told from where to read again, in a longer log too."""
    ensure_topic(conn, "jobs", partitions=1)
    options = {"url": dsn, "subscribe": "jobs", "startingOffsets": "earliest", "groupId": "query"}
    reader = StreamReader(read_options(options))
    places = {}
    for n in range(9):
        publish(conn, "jobs", n)
        sequence(conn)
        places[n + 1] = reader.newest()
    conn.execute("update gapless.log_segment set timeline = 2 where base_offset > 5")
    end = reader.next(places[5], limited=False)
    assert end == {**places[9], "": {**places[9][""], "timeline": 2}}
    assert reader.next(end, limited=False) == end, "nothing is due"
    made_by_hand = {"jobs": places[6]["jobs"]}
    assert reader.next(made_by_hand, limited=False) == end
    for n in (6, 9):
        for ask in (reader.show, lambda place: reader.next(place, limited=False)):
            with pytest.raises(
                UsageError, match=f"at offset {n + 1} of jobs/0.* from 6 on the log"
            ):
                ask(places[n])
    reader.close()
