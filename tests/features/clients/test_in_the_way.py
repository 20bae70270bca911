"""Clients that stand in others' way: a transaction left open, a letter that others changed."""

from contextlib import closing

import psycopg
import pytest
from psycopg import Connection

from features.clients.calls import GROUP, Clients, refused
from gapless.db.connect import connect
from gapless.log.topics import ensure_topic
from support.servers import until


@pytest.mark.long
def test_a_transaction_left_open_ends_with_the_time_to_live(clients: Clients, dsn: str) -> None:
    """Its locks are on the member's row and the fence: without an end nobody takes over (I8)."""
    clients.publish("a", "b")
    one = clients.join("3 s")
    assert one.offsets() == [1, 2]
    with psycopg.connect(dsn) as hung:
        hung.execute("select gapless.commit(%s, 0, 2)", [one.token])
        two = clients.join()
        assert until(lambda: two.offsets() == [1])
        with pytest.raises(psycopg.Error):  # 25P03, or that the session is gone
            hung.commit()
    assert clients.next_offset() == 1


@pytest.mark.long
def test_who_joins_and_leaves_its_transaction_open_stops_no_plan_for_long(
    clients: Clients, dsn: str
) -> None:
    clients.conn.execute("select gapless.create_group('other', %s)", [clients.topic.name])
    with closing(psycopg.connect(dsn)) as hung:
        row = hung.execute(
            "select current_setting('idle_in_transaction_session_timeout')"
            " from gapless.join(%s, %s, '1 h')",
            [GROUP, clients.topic.name],
        ).fetchone()
        assert row == ("5s",)
        assert clients.join(group_id="other").offsets() == []  # waits for the end of the other
    assert clients.one("select count(*) from gapless.member") == 1


def test_a_shorter_limit_of_the_session_stays(clients: Clients, dsn: str) -> None:
    one = clients.join()
    with psycopg.connect(dsn, options="-c idle_in_transaction_session_timeout=30min") as other:
        other.execute("select * from gapless.heartbeat(%s)", [one.token])
        row = other.execute("show idle_in_transaction_session_timeout").fetchone()
        assert row == ("30min",)
    with psycopg.connect(dsn) as other:
        other.execute("select * from gapless.heartbeat(%s)", [one.token])
        row = other.execute("show idle_in_transaction_session_timeout").fetchone()
        assert row == ("1h",)
        other.commit()
        row = other.execute("show idle_in_transaction_session_timeout").fetchone()
        assert row == ("0",)


def test_eviction_locks_nobody_who_is_there(clients: Clients, dsn: str) -> None:
    clients.conn.execute("select gapless.create_group('other', %s)", [clients.topic.name])
    beating = clients.join(group_id="other")
    one, gone = clients.join(), clients.join()
    clients.expire(gone)
    with connect(dsn, role="test") as slow, slow.transaction():
        slow.execute("select * from gapless.poll(%s)", [one.token])
        slow.execute("set local idle_in_transaction_session_timeout = 0")
        assert slow.execute("select from gapless.eviction").rowcount == 1
        clients.conn.execute("set statement_timeout = '30 s'")
        beating.heartbeat()


def test_a_partition_without_a_place_says_so(clients: Clients, conn: Connection) -> None:
    """Places of another group, of another topic and of other partitions are none."""
    conn.execute("select gapless.set_partitions('orders', 2)")
    ensure_topic(conn, "bills", partitions=2)
    for group, topic in (("other", "orders"), (GROUP, "bills")):
        conn.execute("select gapless.create_group(%s, %s)", [group, topic])
    conn.execute(
        "delete from gapless.consumer_offsets"
        " where group_id = %s and topic_id = %s and partition_id = 1",
        [GROUP, clients.topic.topic_id],
    )
    one = clients.join()
    one.poll()
    errors = (
        "select partition_id, error from gapless.lease where error is not null order by lease_no"
    )
    (found,) = clients.rows(errors)
    assert found.partition_id == 1
    assert f"gapless seek {GROUP}/orders/1 gives it a place" in found.error


@pytest.mark.parametrize("ended", ["rejected", "discarded"])
def test_a_letter_that_was_mended_is_not_ended_by_who_had_it_before(
    clients: Clients, conn: Connection, ended: str
) -> None:
    clients.publish("a")
    one = clients.join()
    one.poll()
    one.reject(0, 1)
    place = [GROUP, clients.topic.name]
    redrive = "select gapless.redrive_letter(%s, %s, 0, 1)"
    conn.execute(redrive, place)
    assert [each.redriven for each in one.poll()] == [True]
    if ended == "rejected":
        one.reject(0, 1)
    else:
        conn.execute("select gapless.discard_letter(%s, %s, 0, 1, 'wrong')", place)
    conn.execute(
        "select gapless.mend_letter(%s, %s, 0, 1, array[1::bigint], array[null]::text[],"
        " array[null]::text[], array['{\"mended\": true}'])",
        place,
    )
    conn.execute(redrive, place)
    with refused("GL409"):
        one.commit_redriven(0, 1)
    (again,) = one.poll()
    assert again.payload == {"mended": True}
    one.commit_redriven(0, 1)


def test_who_kills_its_member_takes_no_neighbour_with_it(wide: Clients) -> None:
    """Neither the heads of other partitions, nor letters that are handled again beside it."""
    wide.publish(*"abcdefghijkl")
    one = wide.join()
    first = one.poll()[0]
    poison = (first.partition_id, first.first_offset)
    for _ in range(60):
        found = one.poll()
        if not found:
            break
        if poison in {(each.partition_id, each.first_offset) for each in found}:
            wide.expire(one)
            one = wide.join()
            continue
        for each in found:
            one.commit(each.partition_id, each.last_offset + 1)
    dead = wide.rows("select partition_id, first_offset from gapless.dead_letter")
    assert [tuple(each) for each in dead] == [poison]
    assert one.poll() == []
