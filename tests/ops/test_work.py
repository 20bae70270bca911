"""The occupation of workers: supervisors' sessions, clients, workers of a queue."""

import threading
from contextlib import suppress
from datetime import datetime

import pytest
from psycopg import Connection

import gapless
from gapless import ops
from gapless.db.connect import connect
from gapless.errors import BlockedError, RefusedError, UsageError
from gapless.features.clients import ops as clients
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from gapless.ops import GroupPlace, GroupWork
from gapless.testing import drain
from support.fleet import until
from support.records import Command, known, value

BILLING = GroupPlace.parse("billing/orders")


@pytest.fixture(autouse=True)
def event(conn: Connection) -> None:
    """An event in one of the two partitions of topic orders."""
    ensure_topic(conn, "orders", partitions=2)
    publish(conn, "orders", {"n": 1}, key="k")
    sequence(conn)


def test_a_handler_is_in_a_unit(conn: Connection, dsn: str) -> None:
    seen: list[GroupWork] = []

    @gapless.handler(topic="orders", group="billing")
    def look(unit: gapless.Unit, _conn: object) -> None:
        seen.extend(ops.show_work(conn, BILLING))

    drain(dsn, look)
    (busy,) = [each for each in seen if each.offset is not None]
    assert (busy.doing, busy.offset) == ("in a unit", 1)
    assert busy.pid is not None
    assert busy.since is not None
    assert {each.doing for each in ops.show_work(conn, BILLING)} == {"nobody"}


def test_an_at_least_once_handler_is_in_a_unit_since_its_newest_call(
    conn: Connection, dsn: str
) -> None:
    times: list[datetime | None] = []

    @gapless.handler(topic="orders", group="billing", delivery="at-least-once", on_failure="block")
    def look(unit: gapless.Unit) -> None:
        called = value(conn, "select clock_timestamp()")
        with connect(dsn, role="test") as other, other.transaction():  # as its worker looks around
            pid = value(other, "select pg_backend_pid()")
            conn.execute("update gapless.lease set worker_pid = %s where owner is not null", [pid])
            (busy,) = [each for each in ops.show_work(conn, BILLING) if each.offset is not None]
        assert (busy.doing, busy.offset) == ("in a unit", 1)
        times.extend([busy.since, called])
        if len(times) == 2:
            raise ValueError

    with suppress(BlockedError):
        drain(dsn, look)
    assert {each.doing for each in ops.show_work(conn, BILLING)} == {"nobody"}
    drain(dsn, look)
    assert len(times) == 4
    assert times == sorted(times)


def test_a_client_and_a_pause(conn: Connection, command: Command) -> None:
    ops.create_group(conn, "billing", "orders")
    joined = clients.join_group(conn, "billing", "orders")
    member = clients.ClientMember(
        group="billing", member_id=str(joined.member_id), token=joined.token
    )
    clients.poll_group(conn, member)
    (busy,) = [each for each in ops.show_work(conn, BILLING) if each.offset is not None]
    assert (busy.doing, busy.offset, busy.attempts) == ("in a unit", 1, 1)
    assert known(ops.show_work(conn, BILLING)) == command("groups", "work", "billing/orders")
    clients.commit_offset(conn, member, busy.partition, 2)
    ops.pause(conn, BILLING)
    assert {each.doing for each in ops.show_work(conn, BILLING)} == {"paused"}
    for wrong, error in (("nobody", RefusedError), ("billing/orders/0", UsageError)):
        with pytest.raises(error):
            ops.show_work(conn, GroupPlace.parse(wrong))


def test_workers_of_a_queue(conn: Connection, dsn: str) -> None:
    ops.create_group(conn, "mail", "orders", mode="queue")
    place = GroupPlace(group="mail")
    with connect(dsn, role="queue worker mail") as worker:
        lock = "select pg_advisory_xact_lock(7)"

        def says(word: str) -> bool:
            return [
                each.doing for each in ops.show_work(conn, place) if each.partition is None
            ] == [word]

        assert says("at rest")
        with worker.transaction():
            worker.execute(lock)
            assert says("in a unit")
            conn.execute("set role gapless_operator")
            assert says("not visible")
            conn.execute("reset role")
        with conn.transaction():
            conn.execute(lock)
            waits = threading.Thread(target=worker.execute, args=(lock,))
            waits.start()
            with connect(dsn, role="test") as other:
                query = "select wait_event_type from pg_stat_activity where pid = %s"
                pid = [worker.info.backend_pid]
                until(lambda: other.execute(query, pid).fetchone() == ("Lock",), "it waits")
                assert says("waiting for a lock")
        waits.join()


def test_a_reservation_of_a_queue_is_in_hand(conn: Connection) -> None:
    ops.create_group(conn, "mail", "orders", mode="queue")
    taken = "select now(), partition_id, c_offset from gapless.take('mail', 'orders', 1, '60 s')"
    with conn.transaction():
        row = conn.execute(taken).fetchone()
    assert row is not None
    work = ops.show_work(conn, GroupPlace.parse("mail/orders"))
    (held,) = [each for each in work if each.doing == "in hand"]
    assert (held.partition, held.offset, held.attempts) == (row[1], row[2], 1)
    assert held.since is not None
    assert held.since >= row[0]
    conn.execute("update gapless.queue_range set deadline = now() - interval '1 s'")
    work = ops.show_work(conn, GroupPlace.parse("mail/orders"))
    assert {each.doing for each in work} == {"shared"}
