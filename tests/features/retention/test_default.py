"""The default chunk empties itself: what no chunk was made for in time becomes a chunk of its own.

Nothing is lost, given another offset, handled twice, or gone from a snapshot while it moves (I1, I3).
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Event as Signal
from typing import Any

import psycopg
import pytest

from features.retention.world import World
from gapless.consume.unit import Unit
from gapless.consume.user.handler import handler
from gapless.db.connect import connect
from gapless.features.retention.chunks import plan_retention
from gapless.log.catch_up import keep_house
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence
from gapless.log.topics import ensure_topic
from gapless.settings import Settings
from gapless.testing import Drained, drain
from support.log import Placed, assert_gapless, placed

STEP = "select gapless.empty_default_chunk()"
IN_DEFAULT = "select count(*) from gapless.outbox_message_default"
IN_COPIES = "select count(*) from gapless.chunk_copy"
CHUNK_OF = "select c.chunk from gapless.chunk c where %s between c.from_id and c.upto - 1"
# For each gap: where it begins behind the last chunk, and how many events are in it.
GAPS = {"one": [(0, 5)], "far": [(50_000, 3)], "several": [(0, 4), (10, 1), (0, 1200)]}


# Ways to read a claim's events: with the claim, what a filter or subscriptions keep, in pieces, from a queue.
WAYS: dict[str, Mapping[str, Any]] = {
    "a claim": {},
    "batch": {"batch_size": 100},
    "filter": {"where": "$.n >= 0"},
    "user": {"group_by": "user"},
    "streamed": {"batch_size": 1001},
    "parked": {"on_failure": "park-key"},
    "queue": {"mode": "queue"},
}


def fill(world: World, gap: int = 0, count: int = 6) -> None:
    """Let so many events have no chunk, as when nobody runs; then make chunks, if nobody is in the way."""
    world.conn.execute(
        "select setval('gapless.outbox_message_id_seq', max(upto) + %s, false) from gapless.chunk",
        [gap],
    )
    for n in range(count):
        publish(world.conn, "orders", n, key=f"k{n}")
    while sequence(world.conn):
        pass
    with suppress(psycopg.errors.LockNotAvailable):
        create_chunks(world.conn)


def events(world: World) -> list[Placed]:
    """All that have offsets, in order; there is no hole."""
    log = placed(world.conn)
    assert_gapless(log)
    return [event for run in log.values() for event in run]


def in_default(world: World) -> int:
    return int(world.value(IN_DEFAULT))


@pytest.mark.parametrize("gaps", GAPS.values(), ids=GAPS)
def test_it_empties_itself(world: World, gaps: list[tuple[int, int]]) -> None:
    """Several times, with as many rows as fill chunks; what comes after it needs no other publisher."""
    for gap, count in gaps:
        fill(world, gap, count)
    before = events(world)
    assert in_default(world) == len(before) == sum(count for _, count in gaps)
    keep_house(world.conn)
    world.apply()
    assert in_default(world) == 0
    assert events(world) == before
    assert all(world.value(CHUNK_OF, event.id) for event in before)
    world.conn.execute("update gapless.sequencer set system_identifier = 1")
    assert sequence(world.conn) == 0, "after a restore, too"
    publish(world.conn, "orders", "next")
    assert in_default(world) == 0


def test_headers_that_are_no_object_hold_up_nothing_that_waits_for_its_time(world: World) -> None:
    """Somebody with rights to the tables wrote them: what is published has none of them."""
    world.conn.execute(
        "insert into gapless.scheduled (deliver_at, timeline, topic_id, payload, headers)"
        " values ('2020-01-01', 1, 2, '1', '\"late\"')"
    )
    world.conn.execute("select gapless.add_schedule('s', 'orders', every => '1 day')")
    world.conn.execute("update gapless.schedule set headers = '[2]', next_due = '2020-01-01'")
    assert world.value("select promoted from gapless.promote()") == 2
    headers = (
        "select array_agg(headers order by headers is null desc) from gapless.outbox_message_t"
    )
    bare, of_schedule = world.value(headers)
    assert bare is None
    assert of_schedule.keys() == {"gapless-schedule", "gapless-due"}


def test_what_may_still_be_published_stays(world: World) -> None:
    """An open transaction may have an id of it; then it is moved whole."""
    with connect(world.dsn, role="publisher") as publisher:
        with publisher.transaction():
            publish(publisher, "orders", "in a chunk")
            fill(world)
            keep_house(world.conn)
            assert world.value(STEP) is False
            assert world.value(IN_COPIES) == 0
        keep_house(world.conn)
        assert world.value(STEP) is True
        assert world.value(IN_COPIES) == 1
    world.apply()
    assert in_default(world) == 0
    assert len(events(world)) == 7


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_snapshot_never_misses_it(world: World, steps: int) -> None:
    """Whether it was taken before the copy was there, before or after it was noted who may not see that."""
    fill(world)
    keep_house(world.conn)
    for _ in range(steps):
        assert world.value(STEP) is True
    with connect(world.dsn, role="reader") as reader:
        reader.execute("begin isolation level repeatable read")
        reader.execute("select from gapless.topic")
        while world.value(STEP):
            pass
        assert in_default(world) == (6 if steps < 2 else 0)
        for partition in (0, 1):
            read = "select count(*) from gapless.read('orders', %s)"
            assert reader.execute(read, [partition]).fetchone() == (world.ends()[partition][1] - 1,)
        reader.execute("commit")
    world.apply()
    assert in_default(world) == 0


def test_what_was_moved_is_kept_for_who_needs_it_and_dropped_then(world: World) -> None:
    """Also when chunks behind it were complete before it was moved."""
    world.group()
    fill(world)
    world.publish(events=3)
    world.next_chunk()
    world.publish(events=3)
    keep_house(world.conn)
    plan_retention(world.conn)
    world.expire()
    world.apply()
    moved = world.value(CHUNK_OF, events(world)[0].id)
    assert world.apply() == 0
    (chunk,) = (each for each in plan_retention(world.conn) if each.chunk == moved)
    assert (chunk.events, chunk.goes) == (6, False)
    assert any("group billing has yet to handle" in reason for reason in chunk.reasons)
    world.drain()
    world.until_nobody_works()
    assert sorted(world.handled(0)) == list(range(1, world.ends()[0][1]))
    world.apply()
    assert moved not in [each.chunk for each in plan_retention(world.conn)]


def test_whoever_moves_it_may_be_killed_at_each_step(world: World) -> None:
    fill(world, count=2300)
    before = events(world)
    keep_house(world.conn)
    told = []
    for n in range(1, 9):
        done = subprocess.run(
            [sys.executable, "-m", "gapless", "retention", "--apply", "--dsn", world.dsn],
            env={**os.environ, "GAPLESS_FAILPOINTS": f"retention.moved=kill@{1 + n % 2}"},
            capture_output=True,
            check=False,
        )
        told.append(done.returncode)
        assert events(world) == before
        if not in_default(world):
            break
    assert told.count(-9) > 2
    assert in_default(world) == 0


def test_publishers_and_readers_continue_while_it_moves(world: World) -> None:
    """One burns ids, so that chunks are never made in time."""
    burn = "select count(nextval('gapless.outbox_message_id_seq')) from generate_series(1, 700)"
    read = "select count(*) from gapless.read('orders', 0)"

    def produce(n: int) -> int:
        with connect(world.dsn, role="publisher") as conn:
            for each in range(60):
                conn.execute(burn if n == 0 else "select 1")
                publish(conn, "orders", each, key=f"k{n}")
        return 60

    with ThreadPoolExecutor(3) as pool, connect(world.dsn, role="reader") as reader:
        loads = [pool.submit(produce, n) for n in range(3)]
        last = 0
        while not all(load.done() for load in loads):
            keep_house(world.conn)
            world.apply()
            now = (reader.execute(read).fetchone() or (0,))[0]
            assert now >= last
            last = now
        published = sum(load.result() for load in loads)
    keep_house(world.conn)
    world.apply()
    assert in_default(world) == 0
    assert len(events(world)) == published


@pytest.mark.few(3)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_handlers_of_what_is_in_it_are_not_in_the_way(world: World, way: Mapping[str, Any]) -> None:
    """They are slow, and one is always at work: chunks are made, and it empties itself."""
    leave_chunks(world, units=(3, 1))
    ensure_topic(world.conn, "other", partitions=1)
    world.conn.execute("create table handled_by (name text, c_offset bigint, characters int)")
    with ThreadPoolExecutor(3) as pool, ExitStack() as ends:
        end, done = begin_slowly(world, "a", way, pool)
        ends.callback(end.set)
        leave_chunks(world, units=(2,))
        before = events(world)
        assert in_default(world) == 6
        with pytest.raises(psycopg.errors.LockNotAvailable):
            create_chunks(world.conn)
        for group in "bcdef":  # each begins before the one before ends
            at_work = begin_slowly(world, group, way, pool)
            ends.callback(at_work[0].set)
            end.set()
            done.result()
            end, done = at_work
            keep_house(world.conn)
            publish(world.conn, "other", group)
            while world.value(STEP):
                pass
        assert in_default(world) == 0
        assert world.value("select to_regclass('gapless.default_wanted')") is None
        end.set()
        done.result()
    assert events(world)[:6] == before
    handled = "select name, array_agg(c_offset order by c_offset), min(characters) from handled_by"
    for group, offsets, characters in world.conn.execute(f"{handled} group by 1".encode()):
        aside = [4, 5, 6] if group == "b" and way.get("on_failure") else []
        assert offsets == [n for n in range(1, 7) if n not in aside]
        assert characters == 36 * 99


def leave_chunks(world: World, units: tuple[int, ...]) -> None:
    """Publish units of one key, large events that do not fit in their rows, where no chunk is."""
    world.value("select setval('gapless.outbox_message_id_seq', max(upto)) from gapless.chunk")
    for count in units:
        world.conn.execute(
            "insert into gapless.outbox_message_t (topic_id, key, user_id, event_type, payload)"
            " select gapless.topic_id('orders'), 'k', 'u', 'order.paid', json_build_object('n', n,"
            " 't', (select string_agg(gen_random_uuid()::text, '') from generate_series(1, 99)))"
            " from generate_series(1, %s) n",
            [count],
        )
    sequence(world.conn)


def begin_slowly(
    world: World, group: str, way: Mapping[str, Any], pool: ThreadPoolExecutor
) -> tuple[Signal, Future[Drained]]:
    """Let a handler be at work, which does not end before the signal is set."""
    begun, end = Signal(), Signal()

    @handler(topic="orders", group=group, **way)
    def work(unit: Unit, conn: psycopg.Connection[Any]) -> None:
        places = [(group, event.offset, len(event.payload["t"])) for event in unit]
        begun.set()
        assert end.wait(60)
        conn.cursor().executemany("insert into handled_by values (%s, %s, %s)", places)
        if (group, places[0][1]) == ("b", 4) and way.get("on_failure"):
            raise ValueError("set aside, with what comes behind it")

    drained = pool.submit(drain, world.dsn, work, settings=Settings(retry_delays_s=(3600,)))
    assert begun.wait(60)
    return end, drained
