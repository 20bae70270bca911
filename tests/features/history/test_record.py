"""Minutes of groups and topics: what is written, what is unknown, and what the clock does to it."""

from typing import Any

import psycopg
import pytest
from psycopg import Connection

from features.history.minutes import HOUR, add, handle, now, read, record
from gapless import ops
from gapless.db.connect import connect
from support.records import value

ROWS = "select count(*) from gapless.history_minute"


@pytest.fixture(autouse=True)
def log(orders: None) -> None:
    """Ten events in topic orders; group billing has handled none."""


def test_numbers_of_a_minute(conn: Connection[Any]) -> None:
    record(conn, 0)
    handle(conn, 4)
    add(conn, 3)
    record(conn, 1)
    group = read(conn)
    oldest = value(
        conn, "select floor(extract(epoch from min(created_ts))) from gapless.outbox_message_t"
    )
    assert [(each.lag, each.handled) for each in group.values()] == [(10, None), (9, 4)]
    assert group[0].lag_s == int(HOUR.timestamp()) - oldest
    assert (group[1].dead_letters, group[1].members, group[1].published) == (0, 0, None)
    topic = read(conn, None, "orders")
    assert [(each.published, each.lag) for each in topic.values()] == [(None, None), (3, None)]
    both = read(conn, None, None)
    assert [(each.lag, each.handled, each.published) for each in both.values()] == [
        (10, None, None),
        (9, 4, 3),
    ]


def test_an_event_that_is_missing_has_no_age(conn: Connection[Any]) -> None:
    conn.execute("delete from gapless.outbox_message_t")
    record(conn, 0)
    assert [(each.lag, each.lag_s) for each in read(conn).values()] == [(10, None)]


def test_new_partitions_are_no_handled_events(conn: Connection[Any]) -> None:
    record(conn, 0)
    conn.execute("select gapless.set_partitions('orders', 8)")
    record(conn, 1)
    assert [each.handled for each in read(conn).values()] == [None, 0]


def test_nothing_is_written_while_nothing_changes(conn: Connection[Any]) -> None:
    """A group that stands still is as idle as one that has handled all: its age is a time."""
    record(conn, 0)
    record(conn, 1)
    rows = value(conn, ROWS)
    assert [record(conn, minute) for minute in range(2, 50)] == [0] * 48
    assert value(conn, ROWS) == rows
    group = read(conn)
    assert list(group) == list(range(50))
    assert {each.lag for each in group.values()} == {10}
    ages = [each.lag_s or 0 for each in group.values()]
    assert [after - before for before, after in zip(ages, ages[1:], strict=False)] == [60] * 49


def test_minutes_without_a_recorder_are_missing_and_no_rate_spans_them(
    conn: Connection[Any],
) -> None:
    record(conn, 0)
    record(conn, 1)
    handle(conn, 6)
    record(conn, 5)
    record(conn, 6)
    assert [(n, each.lag, each.handled) for n, each in read(conn).items()] == [
        (0, 10, None),
        (1, 10, 0),
        (5, 4, None),
        (6, 4, 0),
    ]


def test_two_recorders_in_a_minute_write_it_once(conn: Connection[Any], dsn: str) -> None:
    with connect(dsn, role="other") as other:
        record(conn, 0)
        assert record(other, 0) == 0
        handle(conn, 1)
        record(other, 1)
        assert record(conn, 1) == 0
        assert [each.handled for each in read(conn).values()] == [None, 1]


def test_a_clock_that_is_set_back_writes_no_minute_again(conn: Connection[Any]) -> None:
    for minute in range(55, 63):
        record(conn, minute)
    before = read(conn)
    handle(conn, 3)
    for minute in range(58, 63):
        record(conn, minute)
    assert read(conn) == before
    record(conn, 63)
    record(conn, 64)
    assert [each.handled for each in read(conn, first=63).values()] == [None, 0]
    record(conn, 40)
    record(conn, 65)
    assert list(read(conn)) == [40, *range(55, 66)], "its hour was packed before"


def test_a_clock_that_is_set_back_into_a_forgotten_hour_is_packed(conn: Connection[Any]) -> None:
    start = now(conn) // 60 * 60 - 60 * 24
    for minute in (30, 31, 180):
        record(conn, start + minute, 1)
    handle(conn, 3)
    for minute in (30, 181, 182):
        record(conn, start + minute, 1)
    assert [(n - start, each.lag) for n, each in read(conn, first=start + 120).items()] == [
        (180, 10),
        (181, 7),
        (182, 7),
    ]


def test_a_clock_that_is_ahead_for_a_moment_deletes_nothing(conn: Connection[Any]) -> None:
    record(conn, 0)
    conn.execute("update gapless.clock_look set looked_ts = clock_timestamp()")
    record(conn, 60 * 24 * 365)
    record(conn, 1)
    record(conn, 2)
    assert list(read(conn)) == [0, 1, 2, 60 * 24 * 365]


def test_moves_by_people_are_no_rate(conn: Connection[Any]) -> None:
    """A seek to the end handles no event, and one back to the beginning does not undo them."""
    for minute, end in enumerate(["latest", "earliest", None, None], start=now(conn)):
        record(conn, minute)
        if end:
            ops.seek(conn, ops.GroupPlace(group="billing"), ops.Point(end=end))
    assert [each.handled for each in read(conn).values()][:3] == [None] * 3
    assert [each.lag for each in read(conn).values()] == [10, 0, 10, 10]


def test_a_move_whose_transaction_was_open_for_minutes_is_no_rate(
    conn: Connection[Any], dsn: str
) -> None:
    """As in psql: begin, seek, look, commit."""
    start = now(conn)
    record(conn, start)
    with connect(dsn, role="other") as other:
        with other.transaction():
            other.execute("select gapless.seek('billing', to_end => 'latest')")
            for minute in range(start + 1, start + 4):
                record(conn, minute)
        record(conn, start + 4)
    record(conn, start + 5)
    handled = [(each.lag, each.handled) for each in read(conn).values()]
    assert handled == [(10, None), *[(10, 0)] * 3, (0, None), (0, 0)]


def test_a_late_recording_is_no_rush_and_loses_none(conn: Connection[Any]) -> None:
    """600 events a minute, and a recorder that comes 50 s late: the next one comes in time."""
    for minute, second, events in ((0, 0, 0), (1, 0, 600), (2, 50, 1100), (3, 0, 100), (4, 0, 0)):
        add(conn, events) if events else None
        handle(conn, events)
        record(conn, minute, second=second)
    assert [each.handled for each in read(conn).values()] == [None, 600, 600, 600, 0]
    assert [each.published for each in read(conn, None, "orders").values()][1:] == [600] * 3 + [0]


def test_a_long_job_of_a_queue_hides_no_rate(conn: Connection[Any]) -> None:
    """Jobs are handled when they are done, and not all at once when the oldest one is."""
    conn.execute("select gapless.create_group('jobs', 'orders', mode => 'queue', block => 1)")
    take = "select receipt from gapless.take('jobs', 'orders', 1, '1 h')"
    end = "select gapless.acknowledge('jobs', 'orders', %s)"
    oldest = value(conn, take)
    record(conn, 0)
    for minute in (1, 2, 3):
        conn.execute(end, [value(conn, take)])
        record(conn, minute)
    conn.execute(end, [oldest])
    record(conn, 4)
    assert [each.handled for each in read(conn, "jobs").values()] == [None, 1, 1, 1, 1]


def test_events_that_retention_dropped_are_no_rate(conn: Connection[Any]) -> None:
    for minute in range(now(conn), now(conn) + 2):
        record(conn, minute)
        handle(conn, 5)
        conn.execute(
            "insert into gapless.audit (action, group_id, topic_id)"
            " select 'overrun', group_id, topic_id from gapless.consumer_group"
        )
    assert [each.handled for each in read(conn).values()] == [None, None]


def test_it_goes_with_its_group_and_another_of_that_name_has_its_own(conn: Connection[Any]) -> None:
    for minute in (0, 1, 60):
        record(conn, minute)
    conn.execute("select gapless.drop_group('billing')")
    assert read(conn) == {}
    assert len(read(conn, None, None)) == 3
    conn.execute("select gapless.create_group('billing', 'orders', 'latest')")
    record(conn, 61)
    assert [(n, each.lag, each.handled) for n, each in read(conn).items()] == [(61, 0, None)]


def test_a_group_that_is_being_dropped_is_passed_and_holds_up_no_other_one(
    conn: Connection[Any], dsn: str
) -> None:
    """Neither the minutes, nor the packing of an hour, nor the deletion of an old one wait."""
    conn.execute("select gapless.create_group('other', 'orders')")
    conn.execute("set lock_timeout = '100ms'")
    start = now(conn) // 60 * 60 - 60 * 24
    for minute in (0, 60, 119):
        record(conn, start + minute)
        handle(conn, 1)
    with connect(dsn, role="other") as other, other.transaction(force_rollback=True):
        conn.execute("select gapless.create_group('third', 'orders')")
        other.execute("select gapless.drop_group('billing'), gapless.drop_group('third')")
        for minute in (120, 121, 240, 241):
            handle(conn, 2, "other")
            record(conn, start + minute, 2)
        assert value(conn, "select count(*) from gapless.history_clock where not is_packed") == 2
    handle(conn, 3)
    for minute in (242, 243):
        record(conn, start + minute, 2)
    for group, handled in (("billing", [None, 0]), ("other", [2, None, 2, 0, 0])):
        found = read(conn, group, first=start + 121).values()
        assert [each.handled for each in found][-len(handled) :] == handled
    assert value(conn, "select count(*) from gapless.history_clock where not is_packed") == 1


def test_it_is_kept_for_so_many_hours_and_the_newest_number_longer(conn: Connection[Any]) -> None:
    """A group that stays as it is for longer than that is still known."""
    start = now(conn) // 60 * 60 - 60 * 24
    for hour in range(8):
        record(conn, start + 60 * hour, 3)
        record(conn, start + 60 * hour + 1, 3)
    assert min(read(conn)) >= start + 60 * 4
    for minute in range(start + 60 * 7 + 2, start + 60 * 14):
        record(conn, minute, 3)
    assert value(conn, "select max(hour) - min(hour) from gapless.history_clock") == 3
    last = start + 60 * 14 - 1
    assert read(conn, first=last)[last].lag == 10
    record(conn, last + 1, 0)
    assert read(conn) == {}
    assert value(conn, "select keep_hours from gapless.history_state") == 0


def test_a_role_that_sequences_records_the_present_and_an_operator_keeps_less(
    conn: Connection[Any], dsn: str
) -> None:
    conn.execute("set role gapless_consumer")
    assert value(conn, "select gapless.record_history()") is not None
    assert value(conn, "select count(*) from gapless.history()") >= 0
    for refused in (
        "select gapless.record_history_at(now() + interval '1 year', 72)",
        "delete from gapless.history_hour",
        "update gapless.history_state set keep_hours = 0",
        "select gapless.record_history(0)",
        "select gapless.record_history(23)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute(refused)
    conn.execute("set role gapless_operator")
    for hours in (12, 0):
        conn.execute("select gapless.record_history(%s)", [hours])
    conn.execute("set role gapless_consumer")
    conn.execute("select gapless.record_history(0)")
    conn.execute("set role gapless_producer")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("select gapless.record_history()")


def test_hours_out_of_bounds_are_refused(conn: Connection[Any]) -> None:
    for hours in (-1, 8761, None):
        with pytest.raises(psycopg.Error, match="0 to 8760 hours"):
            conn.execute("select gapless.record_history(%s)", [hours])


def test_dead_letters_and_members_are_counted(conn: Connection[Any]) -> None:
    conn.execute(
        "insert into gapless.dead_letter (group_id, topic_id, partition_id, first_offset,"
        " last_offset, events, transaction_id, state, attempts, reason, exception)"
        " select 'billing', topic_id, 0, n, n, 1, gen_random_uuid(), 'dead', 1, 'no', 'no'"
        " from gapless.topic, generate_series(1, 3) n where name = 'orders'"
    )
    conn.execute("update gapless.lease set owner = gen_random_uuid()")
    record(conn, 0)
    (only,) = read(conn).values()
    assert (only.dead_letters, only.members) == (3, 1)
