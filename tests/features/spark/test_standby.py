"""Reads from a hot standby: what it has replayed, each event once, and nothing of it on the primary."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from gapless.db.migrate import migrate
from gapless.errors import ConnectError, GaplessError, UsageError
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic, set_partitions
from support.pairs import Pair, following
from support.servers import until
from support.standby import cut_off, promote

pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_postgresql")

from gapless.features.compaction.latest import set_compaction
from gapless.features.spark import bulk, segments
from gapless.features.spark.options import ReadOptions, read_options
from gapless.features.spark.reach import Reached, identity_of
from gapless.features.spark.source import look, plan_batch, read_task
from gapless.features.spark.stream import StreamReader

Place = tuple[int, int]
EVENTS = 20_000  # of a backfill
TOPICS: list[str] = []  # the tests that have had one
TASKS = "select pid from pg_stat_activity where application_name = 'gapless/spark task'"


@pytest.fixture(scope="module")
def shared() -> Iterator[Pair]:
    with following() as made:
        yield made


@pytest.fixture
def pair(shared: Pair, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """The pair of this file, with a topic that no other test has."""
    own = replace(shared, topic=f"t{len(TOPICS)}")
    TOPICS.append(request.node.name)
    with own.on_primary() as conn:
        ensure_topic(conn, own.topic, partitions=2)
    own.replay()
    yield own
    own.resume()


@pytest.fixture
def own() -> Iterator[Pair]:
    """A pair whose servers a test may stop."""
    with following() as made:
        yield made


def _options(pair: Pair, **given: str) -> ReadOptions:
    """The options of a reader; of the standby, unless another url is given."""
    return read_options({"url": pair.standby.dsn(), "subscribe": pair.topic, **given})


def _publish_unseen(pair: Pair, count: int) -> Reached:
    """Publish events that the standby does not replay for now; return it as tasks reach it."""
    pair.pause()
    with pair.on_primary() as conn:
        publish(conn, pair.topic, [NewEvent(payload=n, key=str(n)) for n in range(count)])
        sequence(conn)
        return Reached(dsn=pair.standby.dsn(), identity=identity_of(conn))


def _read(options: ReadOptions, where: Reached | None = None) -> list[Place]:
    plan = plan_batch(options, look(options))
    return _places(options, plan.tasks, where or plan.reached)


def _places(options: ReadOptions, tasks: list[Any], where: Reached) -> list[Place]:
    return _rows(batch for task in tasks for batch in read_task(options, task, where))


def _rows(batches: Iterable[Any]) -> list[Place]:
    columns = ["partition", "offset"]
    return [tuple(row.values()) for each in batches for row in each.select(columns).to_pylist()]


def _later(act: Callable[[], object], seconds: float = 0.5) -> threading.Timer:
    timer = threading.Timer(seconds, act)
    timer.start()
    return timer


def test_a_batch_ends_at_what_is_replayed_and_has_offsets(pair: Pair) -> None:
    pair.publish(300)
    pair.publish(20, given=False)
    pair.replay()
    assert len(_read(_options(pair))) == 300, "nobody gives offsets on a standby"
    with pair.on_primary() as conn:
        assert conn.execute("select gapless.pending()").fetchone() == (True,)
    pair.pause()
    timer = _later(pair.resume)
    found = _read(_options(pair, primaryUrl=pair.primary.dsn()))
    timer.join()
    assert len(found) == len(set(found)) == 320, "the driver gave offsets, and waited"
    assert sorted(found) == pair.whole()


def test_options_that_do_not_fit(pair: Pair) -> None:
    pair.publish(1)
    with closing(StreamReader(_options(pair, groupId="g"))) as reader:
        with pytest.raises(UsageError, match=r"groupId is recorded on the primary, and .* standby"):
            reader.first()
    with pytest.raises(ConnectError, match="is a read-only standby: connect to the primary"):
        look(_options(pair, primaryUrl=pair.standby.dsn()))
    with pair.on_primary() as conn:
        conn.execute("create database other")
    other = pair.primary.dsn().replace("dbname=gapless", "dbname=other")
    with psycopg.connect(other, autocommit=True) as conn:
        migrate(conn)
    with pytest.raises(UsageError, match="primaryUrl leads to another database than url"):
        look(_options(pair, primaryUrl=other))


def test_a_stream_from_the_standby_shows_its_position_on_the_primary(pair: Pair) -> None:
    pair.publish(40)
    primary = pair.primary.dsn()
    options = _options(pair, primaryUrl=primary, groupId="g", startingOffsets="earliest")
    with closing(StreamReader(options)) as reader:
        done = reader.first()
        found: list[Place] = []
        for _ in range(3):
            pair.publish(10, given=False)  # nobody else gives them offsets
            end = reader.next(done, limited=True)
            found += _places(options, reader.tasks(done, end), reader.where())
            done = end
        assert reader.next(done, limited=True) == done
    assert sorted(found) == pair.whole()
    with pair.on_primary() as conn:
        position = "select sum(next_offset - 1) from gapless.consumer_offsets where group_id = 'g'"
        assert conn.execute(position).fetchone() == (70,)


@pytest.mark.parametrize("given", [{}, {"failOnDataLoss": "false"}], ids=["all", "lossy"])
def test_a_task_waits_for_what_the_driver_has_seen(pair: Pair, given: dict[str, str]) -> None:
    """The driver plans on the primary, and a task reads a standby that is not there yet.

    Its lag is no loss of data: nothing is left out, whatever failOnDataLoss says.
    """
    pair.publish(50)
    there = _publish_unseen(pair, 50)
    timer = _later(pair.resume)
    found = _read(_options(pair, url=pair.primary.dsn(), **given), there)
    timer.join()
    assert sorted(found) == pair.whole()


@pytest.mark.parametrize("given", [{}, {"failOnDataLoss": "false"}], ids=["all", "lossy"])
def test_a_standby_that_stays_behind_is_named(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    monkeypatch.setattr(segments, "REPLAY_S", 0.5)
    there = _publish_unseen(pair, 50)
    with pytest.raises(GaplessError, match=r"t\d+/0@1\.\.\d+ is not on the standby .* it lags"):
        _read(_options(pair, url=pair.primary.dsn(), **given), there)


def test_a_checkpoint_that_the_standby_has_not_reached_is_waited_for(pair: Pair) -> None:
    _publish_unseen(pair, 30)
    with closing(StreamReader(_options(pair, url=pair.primary.dsn()))) as reader:
        done = reader.newest()
    timer = _later(pair.resume)
    with closing(StreamReader(_options(pair))) as reader:
        assert reader.next(done, limited=True) == done
        pair.publish(5)
        end = reader.next(done, limited=True)
        assert len(_places(_options(pair), reader.tasks(done, end), reader.where())) == 5
    timer.join()


OF_NEW_PARTITIONS = """
select k::text from generate_series(1, 40) k where gapless.partition_of(k::text, 8) > 1
"""


@pytest.mark.parametrize("road", ["stream", "batch"])
def test_partitions_that_the_standby_does_not_know_yet_are_waited_for(
    pair: Pair, road: str
) -> None:
    """And those that a batch was loaded with: a plan without them would leave their events out."""
    pair.publish(10)
    on_primary = _options(pair, url=pair.primary.dsn(), startingOffsets="earliest")
    with closing(StreamReader(on_primary)) as reader:
        begin = reader.first()
        pair.pause()
        with pair.on_primary() as conn:
            set_partitions(conn, pair.topic, 8)
            keys = conn.execute(OF_NEW_PARTITIONS).fetchall()
            publish(conn, pair.topic, [NewEvent(payload=0, key=key) for (key,) in keys])
        end = reader.next(begin, limited=True)
    loaded = look(on_primary)
    timer = _later(pair.resume)
    with closing(StreamReader(_options(pair))) as reader:
        if road == "batch":
            plan = plan_batch(_options(pair), loaded)
            tasks, where = plan.tasks, plan.reached
        else:
            assert reader.next(end, limited=True)[pair.topic] == end[pair.topic]
            tasks, where = reader.tasks(begin, end), reader.where()
        found = _places(_options(pair), tasks, where)
    timer.join()
    assert {partition for partition, _ in found} > {0, 1}
    assert sorted(found) == pair.whole()


def test_a_compaction_that_the_standby_has_not_replayed_is_waited_for(pair: Pair) -> None:
    """The newest events are planned on the primary; the standby has older ones of some keys."""
    on_primary = _options(pair, url=pair.primary.dsn(), startingOffsets="latest-per-key")
    with pair.on_primary() as conn:
        set_compaction(conn, pair.topic, compact=True)
        pair.publish(40, "old")
        conn.execute("select gapless.compact()")
        pair.replay()
        where = Reached(dsn=pair.standby.dsn(), identity=identity_of(conn))
        pair.pause()
        pair.publish(20, "new", given=False)
        sequence(conn)
        conn.execute("select gapless.compact()")
    plan = plan_batch(on_primary, look(on_primary))
    timer = _later(pair.resume)
    batches = [each for task in plan.tasks for each in read_task(on_primary, task, where)]
    timer.join()
    values = {row["key"]: row["value"] for each in batches for row in each.to_pylist()}
    assert values == {str(n): '"new"' if n < 20 else '"old"' for n in range(40)}
    with closing(StreamReader(_options(pair, startingOffsets="latest-per-key"))) as reader:
        done = reader.first()
        end = reader.next(done, limited=True)
        assert len(_places(_options(pair), reader.tasks(done, end), reader.where())) == 40


@pytest.mark.parametrize("cut", ["conflict", "terminated"])
def test_a_read_that_is_cut_goes_on_where_it_was(pair: Pair, cut: str) -> None:
    pair.publish(60, "x" * (1 << 20))
    options = _options(pair)
    plan = plan_batch(options, look(options))
    found: list[Place] = []
    for task in plan.tasks:
        for batch in read_task(options, task, plan.reached):
            found += _rows([batch])
            if len(found) == batch.num_rows:
                _cut(pair, cut)
    assert sorted(found) == pair.whole()
    if cut == "conflict":
        with pair.on_standby() as standby:
            assert until(lambda: standby.execute(CONFLICTS).fetchone() != (0,))


CONFLICTS = "select confl_lock from pg_stat_database_conflicts where datname = 'gapless'"


def _cut(pair: Pair, cut: str) -> None:
    """Have the server end the read of the task; a backend that is sending is ended when it has sent."""
    with pair.on_standby() as standby:
        pids = [pid for (pid,) in standby.execute(TASKS)]
        assert pids
        if cut == "terminated":
            standby.execute("select pg_terminate_backend(p) from unnest(%s::int[]) p", [pids])
            gone = f"select count(*) from ({TASKS}) t where pid = any (%s)"
            assert until(lambda: standby.execute(gone, [pids]).fetchone() == (0,))
            return
        with pair.on_primary() as primary, primary.transaction():
            primary.execute("lock table gapless.outbox_message_t in access exclusive mode")
        until(lambda: standby.execute(CONFLICTS).fetchone() != (0,), 3.0)


def test_a_look_that_is_cut_is_done_again(pair: Pair) -> None:
    pair.publish(10)
    with closing(StreamReader(_options(pair, startingOffsets="earliest"))) as reader:
        done = reader.first()
        with pair.on_standby() as conn:
            ended = conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'gapless/spark driver'"
            ).fetchall()
            assert ended
        assert sum(reader.next(done, limited=True)[pair.topic].values()) == 12


@pytest.mark.long
def test_a_standby_that_restarts_is_waited_for(own: Pair) -> None:
    """By a look of the driver, and by a task in the middle of its read."""
    own.publish(60, "x" * (1 << 20))
    options = _options(own, startingOffsets="earliest")
    with closing(StreamReader(options)) as reader, ThreadPoolExecutor(1) as thread:
        done = reader.first()
        end = reader.next(done, limited=True)
        (task,) = reader.tasks(done, end)
        batches = read_task(options, task, reader.where())
        found = [next(batches)]
        own.standby.stop("fast")
        coming = thread.submit(reader.next, done, limited=True)
        coming_rows = thread.submit(list, batches)
        own.standby.start()
        assert coming.result() == end
        found += coming_rows.result()
    assert sorted(_rows(found)) == own.whole()


def test_the_primary_is_not_asked_for_events(pair: Pair) -> None:
    """A backfill from the standby costs it nothing; from itself, as many rows as there are events."""
    pair.publish(EVENTS)
    load = _Load(pair)
    assert len(_read(_options(pair))) == EVENTS
    xacts, rows = load.since()
    assert xacts < 10, "those of the test itself"
    assert rows < 1000, "those of the test itself"
    assert len(_read(_options(pair, primaryUrl=pair.primary.dsn()))) == EVENTS
    assert load.since()[1] < EVENTS / 4, "a look for events without offsets, whatever their number"
    assert len(_read(_options(pair, url=pair.primary.dsn()))) == EVENTS
    assert load.since()[1] >= EVENTS


class _Load:
    """What a primary has done, by its own statistics."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._before = self._now()

    def since(self) -> tuple[int, int]:
        """The transactions and rows since the last call; the sessions of tasks end."""
        bulk.close()
        now = self._now()
        found = (now[0] - self._before[0], now[1] - self._before[1])
        self._before = self._now()
        return found

    def _now(self) -> tuple[int, int]:
        with self._pair.on_primary() as conn:
            alone = "select count(*) from pg_stat_activity where datname = current_database()"
            assert until(lambda: conn.execute(alone).fetchone() == (1,))
            row = conn.execute(
                "select xact_commit, tup_returned from pg_stat_database where datname = 'gapless'"
            ).fetchone()
        assert row is not None
        return row


@pytest.mark.long
def test_a_standby_that_is_promoted_goes_on_as_the_primary(own: Pair) -> None:
    """And the read of what it lacks, planned on the old primary, is refused."""
    own.publish(30)
    options = _options(own, startingOffsets="earliest")
    with closing(StreamReader(options)) as reader:
        done = reader.first()
        end = reader.next(done, limited=True)
        found = _places(options, reader.tasks(done, end), reader.where())
        cut_off(own.primary, own.standby)
        lost = _plan_of_events_that_get_lost(own)
        own.primary.stop("immediate")
        own.standby.start()
        assert reader.next(end, limited=True) == end
        promote(own.standby)
        with own.on_standby() as conn:
            events = [NewEvent(payload=n, key=str(n)) for n in range(40)]
            publish(conn, own.topic, events)
            there = Reached(dsn=own.standby.dsn(), identity=identity_of(conn))
        done, end = end, reader.next(end, limited=True)
        found += _places(options, reader.tasks(done, end), reader.where())
    assert sorted(found) == own.whole(own.standby)
    assert len(found) == 70
    assert (done[""]["timeline"], end[""]["timeline"]) == (1, 2)
    with pytest.raises(GaplessError, match=r"a failover has lost events of t/0@1.*: from .* on"):
        _places(options, lost, there)


def _plan_of_events_that_get_lost(pair: Pair) -> list[Any]:
    """The tasks of a driver on the primary, for events that the standby never gets."""
    with pair.on_primary() as conn:
        publish(conn, pair.topic, [NewEvent(payload=n, key=str(n)) for n in range(20)])
    planned = _options(pair, url=pair.primary.dsn())
    return plan_batch(planned, look(planned)).tasks
