"""A log in which nothing more is published lets go of what is old, and then writes nothing."""

import subprocess
import sys
from typing import Any

import pytest
from psycopg import Connection

from features.retention.world import World
from gapless.consume.user.handler import handler
from gapless.db.connect import connect
from gapless.features.retention.chunks import plan_retention
from gapless.log.catch_up import sequence_if_alone
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import create_chunks, sequence, try_role
from gapless.testing import drain
from support.chunks import CHUNK_EVENTS

RUN = "select max(run) from gapless.sequencer"


def bulk_load(conn: Connection[Any], events: int = 5 * CHUNK_EVENTS // 2) -> None:
    """One transaction that fills two chunks and a half."""
    with conn.transaction():
        publish(conn, "orders", [NewEvent(payload=n, key=f"k{n}") for n in range(events)])


def quiet_runs(conn: Connection[Any]) -> int:
    """How many of ten looks at a quiet log wrote something."""
    before = conn.execute(RUN).fetchone()
    assert [sequence(conn) for _ in range(10)] == [0] * 10
    after = conn.execute(RUN).fetchone()
    assert before is not None
    assert after is not None
    return int(after[0] - before[0])


def test_what_is_old_goes_although_nobody_publishes_again(world: World) -> None:
    create_chunks(world.conn)
    bulk_load(world.conn)
    assert try_role(world.conn), "an active sequencer: retention itself gives no offsets"
    assert sequence(world.conn) == 5 * CHUNK_EVENTS // 2
    assert quiet_runs(world.conn) <= 2
    assert quiet_runs(world.conn) == 0, "once is enough"
    world.expire()
    assert world.apply() == 2
    assert world.reasons()[0] == "it is in use: it has room for more events"


def test_a_log_that_crossed_no_chunk_is_not_written_to(world: World) -> None:
    world.publish(0, events=5)
    assert quiet_runs(world.conn) == 0


def test_behind_an_open_transaction_the_floor_waits_and_nothing_is_written(
    world: World, dsn: str
) -> None:
    with connect(dsn, role="slow") as slow:
        slow.execute("begin")
        publish(slow, "orders", NewEvent(payload="late", key=world.keys[0]))
        bulk_load(world.conn)
        assert sequence(world.conn) > 0
        assert quiet_runs(world.conn) <= 2
        assert quiet_runs(world.conn) == 0
        world.expire()
        assert world.reasons() == ["it is in use: a transaction is open that may have events in it"]
        slow.execute("commit")
    assert sequence(world.conn) == 1, "its event is not left behind a floor"
    assert quiet_runs(world.conn) <= 2
    assert world.apply() == 2


def test_whoever_sequences_makes_and_closes_chunks(world: World) -> None:
    bulk_load(world.conn)
    assert sequence_if_alone(world.conn)
    assert world.value("select closed_upto from gapless.retention_state") > CHUNK_EVENTS
    assert world.value("select max(upto) from gapless.chunk") > 4 * CHUNK_EVENTS
    world.expire()
    assert world.apply() == 2


def test_so_does_a_test_that_drains(world: World, dsn: str) -> None:
    @handler(topic="orders", group="billing")
    def nothing(unit: Any, conn: Any) -> None: ...

    bulk_load(world.conn)
    assert drain(dsn, nothing).events == 5 * CHUNK_EVENTS // 2
    assert world.value("select closed_upto from gapless.retention_state") > CHUNK_EVENTS


def test_the_reason_is_true(world: World) -> None:
    bulk_load(world.conn)
    assert try_role(world.conn)
    why = "select gapless.why_open(%s)"
    oldest = world.value("select min(upto) from gapless.chunk")
    assert "events wait for an offset" in world.value(why, oldest)
    sequence(world.conn)
    assert "not looked at since" in world.value(why, oldest)
    quiet_runs(world.conn)
    assert "it is complete" in world.value(why, oldest)
    assert plan_retention(world.conn)[0].reasons == [
        "topic orders keeps its events forever: it has no retention"
    ]


@pytest.mark.long
def test_the_command_looks_where_nobody_sequences(world: World, dsn: str) -> None:
    bulk_load(world.conn)
    world.expire()
    done = subprocess.run(
        [sys.executable, "-m", "gapless", "retention", "--apply", "--dsn", dsn],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "dropped the events of 2 chunks" in done.stderr
