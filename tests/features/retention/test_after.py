"""After retention everything begins where the log does: groups, seeks, replays, tails, Spark, views."""

import psycopg
import pytest

from features.retention.world import World
from gapless.errors import HoleError, OverrunError
from gapless.features.retention.chunks import Retention, set_retention
from gapless.features.spark.options import read_options
from gapless.features.spark.pipeline.position import next_batch, register_pipeline, reset_pipeline
from gapless.features.spark.pipeline.spec import TargetSpec
from gapless.features.spark.place import earliest, find_ends, require_kept
from gapless.log.tail import Tail
from gapless.log.topics import require_topic
from gapless.settings import Settings
from support.pipelines import pipeline

FIRST = 13  # the oldest offset of partition 0 once history() has expired; 3 events follow


@pytest.fixture
def dropped(world: World) -> World:
    """Offsets 1 to 12 of both partitions are gone; partition 0 goes on to 15, partition 1 is empty."""
    world.history()
    world.expire()
    assert world.apply() == 3
    return world


@pytest.mark.long
def test_a_new_group_begins_at_the_earliest_there_is(dropped: World) -> None:
    dropped.group("late")
    assert dropped.drain("late").units == 3
    assert dropped.handled(0) == [13, 14, 15]
    assert dropped.handled(1) == []


def test_a_seek_before_it_is_refused_and_says_the_earliest(dropped: World) -> None:
    dropped.group()
    for target, told in (
        ("to_offset => 12", "the earliest is 13"),
        ("to_time => '2020-01-01'", "the earliest is of 20"),
    ):
        with pytest.raises(psycopg.Error, match=told) as caught:
            dropped.conn.execute(f"select gapless.seek('billing', 'orders', 0, {target})")
        assert caught.value.sqlstate == "GL400"
    assert dropped.value("select min(next_offset) from gapless.consumer_offsets") == FIRST
    dropped.conn.execute("select gapless.seek('billing', 'orders', 0, to_end => 'latest')")
    dropped.conn.execute("select gapless.seek('billing', 'orders', 0, to_end => 'earliest')")
    assert dropped.value("select min(next_offset) from gapless.consumer_offsets") == FIRST


def test_a_time_since_then_is_found_in_an_empty_partition_too(dropped: World) -> None:
    dropped.group()
    now = dropped.value("select clock_timestamp()")
    dropped.conn.execute("select gapless.seek('billing', to_time => %s)", [now])
    assert dropped.value(
        "select array_agg(next_offset order by partition_id) from gapless.consumer_offsets"
    ) == [16, 13]


def test_views_and_reads_begin_there(dropped: World) -> None:
    rows = dropped.conn.execute("select c_offset from gapless.read('orders', 0)").fetchall()
    assert rows == [(13,), (14,), (15,)]
    tail = Tail(dropped.conn, require_topic(dropped.conn, "orders"), [0, 1])
    tail.start_behind(100)
    assert [entry.offset for entry in tail.read()] == [13, 14, 15]
    tail.start_at(1)
    assert [entry.offset for entry in tail.read()] == [13, 14, 15]
    dropped.group()
    assert dropped.conn.execute(
        "select lag, lag_s is null from gapless.lag order by partition_id"
    ).fetchall() == [(3, False), (0, False)]


def test_spark_begins_there_and_says_what_is_lost(dropped: World) -> None:
    ends = find_ends(dropped.conn, read_options({"url": dropped.dsn, "subscribe": "orders"}))
    assert earliest(ends) == {"orders": {0: 13, 1: 13}}
    with pytest.raises(HoleError, match="offsets 1 to 12 of orders/0 are no longer in the log"):
        require_kept({"orders": {0: 1, 1: 13}}, ends, fail=True)
    assert require_kept({"orders": {0: 1, 1: 13}}, ends, fail=False) == earliest(ends)


def test_a_pipeline_that_was_overrun_is_told_of_a_reset(world: World) -> None:
    """An option of the source would be of no use: pipelines have none."""
    cold = pipeline(name="cold", topics=("orders",), target=TargetSpec(kind="table", where="t"))
    register_pipeline(world.conn, cold)
    world.history()
    world.expire(overrun=["pipeline.cold"])
    assert world.apply() == 3
    with pytest.raises(HoleError, match="in the log; gapless pipeline reset cold begins anew with"):
        next_batch(world.conn, cold)
    reset_pipeline(world.conn, "cold")
    seek = "select detail ->> 'to' from gapless.audit where action = 'seek'"
    assert world.value(seek) == "earliest"
    assert next_batch(world.conn, cold).start == {"orders": {0: 13, 1: 13}}


def _overrun(world: World) -> None:
    world.group()
    world.history()
    world.expire(overrun=["billing"])
    assert world.apply() == 3


@pytest.mark.long
def test_a_group_that_was_overrun_stops_and_says_so(world: World) -> None:
    _overrun(world)
    with pytest.raises(OverrunError, match="offsets 1 to 12 before group billing"):
        world.drain()
    assert world.handled() == []
    assert world.value("select min(next_offset) from gapless.consumer_offsets") == 1
    world.until_nobody_works()
    world.conn.execute("select gapless.seek('billing', to_end => 'earliest')")
    world.drain()
    assert world.handled() == [13, 14, 15]


@pytest.mark.long
@pytest.mark.parametrize(("goal", "handled"), [("earliest", [13, 14, 15]), ("latest", [])])
def test_a_group_that_was_overrun_may_go_on(world: World, goal: str, handled: list[int]) -> None:
    _overrun(world)
    world.drain(settings=Settings(auto_offset_reset=goal))  # type: ignore[arg-type]
    assert world.handled() == handled
    assert world.conn.execute(
        "select partition_id, detail ->> 'from' from gapless.audit where action = 'overrun' order by 1"
    ).fetchall() == [(0, "1"), (1, "1")]
    world.publish(0)
    world.drain()
    assert world.handled() == [*handled, 16]


@pytest.mark.long
def test_a_dead_letter_outlives_the_log(world: World) -> None:
    """It has its event with it: it is shown and redriven when the log has it no more (I9)."""
    world.group()
    world.history()
    world.drain(refuse=5)
    world.expire()
    assert world.apply() == 3
    assert world.conn.execute(
        "select c_offset, payload from gapless.dead_letter_queue"
    ).fetchall() == [(5, "x")]
    assert world.value("select gapless.redrive_letter('billing', 'orders', 0, 5)") == "asked"
    world.drain()
    assert world.handled()[-1] == 5


@pytest.mark.long
def test_an_archive_that_never_ran_is_waited_for(world: World) -> None:
    world.history()
    set_retention(world.conn, "orders", Retention(keep_s=0.000_001, archive="cold"))
    assert world.apply() == 0
    (reason,) = world.reasons()
    assert reason == (
        "topic orders waits for pipeline cold, which has never run: gapless pipeline run cold, "
        "or gapless topics alter orders --archive none"
    )
    world.conn.execute(
        "select gapless.register_pipeline('cold', array['orders'], 'earliest', 'parquet x')"
    )
    assert world.apply() == 0
    assert world.reasons()[0] == (
        "pipeline cold has yet to read 8 events of orders, and does not run: "
        "gapless pipeline run cold, or gapless pipeline remove cold"
    )
    world.conn.execute(
        "select gapless.end_batch('cold', 0, array[t, t], array[0, 1], array[1, 1]::bigint[],"
        " array[13, 13]::bigint[], 24, 0) from (select topic_id as t from gapless.topic"
        " where name = 'orders') x"
    )
    assert world.apply() == 3
