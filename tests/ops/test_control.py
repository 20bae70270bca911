"""pause, resume, seek, skip: the records, what the commands print of them, what is refused."""

import psycopg
import pytest
from psycopg import Connection

from gapless import ops
from gapless.errors import GaplessError, RefusedError, UsageError
from gapless.log.topics import require_topic
from gapless.ops import GroupPlace, Point
from support.group import owner
from support.records import Command, known, value

BILLING = GroupPlace(group="billing")
LATEST = Point(end="latest")


def paused(conn: Connection) -> int:
    return value(conn, "select count(*) from gapless.group_pause")


def test_pause_and_resume(conn: Connection, orders: None, command: Command) -> None:
    done = ops.pause(conn, BILLING, reason="bad deploy")
    assert done == ops.Paused(
        group="billing", topic=None, partition=None, new_pauses=1, workers_finishing=0
    )
    assert known(ops.pause(conn, BILLING)) == command("pause", "billing")
    assert value(conn, "select reason from gapless.group_pause") == "bad deploy"
    assert ops.resume(conn, BILLING).ended_pauses == 1
    assert known(ops.resume(conn, BILLING)) == command("resume", "billing")


def test_pause_counts_workers(conn: Connection, orders: None, dsn: str) -> None:
    with owner(dsn, "billing", require_topic(conn, "orders")):
        assert ops.pause(conn, BILLING).workers_finishing == 1


def test_one_partition(conn: Connection, orders: None) -> None:
    place = GroupPlace.parse("billing/orders/0")
    assert ops.pause(conn, place).new_pauses == 1
    assert ops.resume(conn, place).ended_pauses == 1
    ops.pause(conn, BILLING)
    with pytest.raises(RefusedError, match="paused as a whole") as caught:
        ops.resume(conn, place)
    assert caught.value.sqlstate == "GL409"


@pytest.mark.parametrize("act", [ops.pause, ops.resume])
def test_what_cannot_rest(conn: Connection, orders: None, act) -> None:
    with pytest.raises(UsageError, match=r"a partition rests as a whole, billing/orders/0$"):
        act(conn, GroupPlace.parse("billing/orders/0@3"))
    with pytest.raises(RefusedError, match='there is no group "x"') as caught:
        act(conn, GroupPlace(group="x"))
    assert (caught.value.sqlstate, caught.value.exit_code) == ("GL404", 2)


def test_seek(conn: Connection, orders: None, command: Command) -> None:
    plan = ops.plan_seek(conn, BILLING, Point(offset=7))
    assert known(plan) == command("seek", "billing", "--offset", "7")
    (move,) = plan
    assert (move.current_offset, move.new_offset, move.again, move.skipped) == (1, 7, 0, 6)
    assert value(conn, "select next_offset from gapless.consumer_offsets") == 1
    assert ops.seek(conn, GroupPlace.parse("billing/orders/0@7")) == plan
    assert value(conn, "select next_offset from gapless.consumer_offsets") == 7


def test_seek_says_once_where_to(conn: Connection, orders: None) -> None:
    for act in (ops.plan_seek, ops.seek):
        with pytest.raises(UsageError, match="where to"):
            act(conn, BILLING)
        with pytest.raises(UsageError, match="which of the two"):
            act(conn, GroupPlace.parse("billing/orders/0@7"), LATEST)


@pytest.mark.long
def test_seek_under_a_pause(conn: Connection, orders: None, dsn: str) -> None:
    """Refused while a worker is at it; the pause ends with the seek, and when it gives up."""
    told: list[str] = []
    with owner(dsn, "billing", require_topic(conn, "orders")):
        with pytest.raises(RefusedError, match="a worker owns") as caught:
            ops.seek(conn, BILLING, LATEST)
        assert caught.value.sqlstate == "GL423"
        with pytest.raises(GaplessError, match=r"has not let go within 0.2 s"):
            ops.seek_paused(conn, BILLING, LATEST, dsn=dsn, timeout_s=0.2, tell=told.append)
        assert told == ["waiting", "undone"]
        assert (paused(conn), value(conn, "select next_offset from gapless.consumer_offsets")) == (
            0,
            1,
        )
    (move,) = ops.seek_paused(conn, BILLING, LATEST, dsn=dsn)
    assert (move.new_offset, paused(conn)) == (11, 0)


def test_a_pause_that_cannot_be_ended_is_told(conn: Connection, orders: None, dsn: str) -> None:
    told: list[str] = []
    with owner(dsn, "billing", require_topic(conn, "orders")), pytest.raises(GaplessError):
        ops.seek_paused(conn, BILLING, LATEST, dsn="host=/nowhere", timeout_s=0.1, tell=told.append)
    assert told == ["waiting", "still-paused"]
    assert paused(conn) == 1


def test_what_cannot_be_done_is_said_before_anything_rests(
    conn: Connection, orders: None, dsn: str
) -> None:
    told: list[str] = []
    with pytest.raises(RefusedError, match="beyond the end"):
        ops.seek_paused(conn, BILLING, Point(offset=12), dsn=dsn, tell=told.append)
    assert (told, paused(conn), value(conn, "select count(*) from gapless.audit")) == ([], 0, 0)


def test_seek_under_a_pause_needs_autocommit(conn: Connection, orders: None, dsn: str) -> None:
    """Its pause would never be seen by a worker, and wait for ever."""
    with psycopg.connect(dsn) as held, pytest.raises(UsageError, match="autocommit"):
        ops.seek_paused(held, BILLING, LATEST, dsn=dsn)


def test_skip_a_hole(conn: Connection, orders: None) -> None:
    with pytest.raises(RefusedError):
        ops.skip_hole(conn, GroupPlace.parse("billing/orders/0@1"))
    with pytest.raises(UsageError, match="is not GROUP/TOPIC/PARTITION@OFFSET"):
        ops.skip_hole(conn, BILLING)
    conn.execute(
        "delete from gapless.outbox_message_t where id = (select min(id) from "
        "gapless.outbox_message_t)"
    )
    done = ops.skip_hole(conn, GroupPlace.parse("billing/orders/0@1"))
    assert (done.first_offset, done.last_offset, done.missing, done.passed) == (1, 1, 1, 1)
    assert value(conn, "select next_offset from gapless.consumer_offsets") == 2
