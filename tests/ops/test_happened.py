"""What happened lately, as far as the tables tell: members, hand-overs, errors, units, what people did."""

import pytest
from psycopg import Connection

from gapless import ops
from gapless.errors import UsageError
from gapless.ops.happened import ROWS_MAX
from support.records import Command


def kinds(conn: Connection, since_s: float = 3600) -> list[str]:
    return [each.kind for each in ops.happened_since(conn, since_s)]


def test_what_becomes_of_units_and_what_people_do(
    conn: Connection, refused: None, command: Command
) -> None:
    (dead, other) = ops.list_units(conn, ops.DlqFilter(states=["dead"]))
    ops.pause(conn, ops.GroupPlace.parse("billing"), reason="bad deploy")
    ops.resume(conn, ops.GroupPlace.parse("billing"))
    ops.redrive_unit(conn, dead.place, who="ann")
    ops.discard_unit(conn, other.place, reason="a test", who="bob")
    found = ops.happened_since(conn, 3600)
    assert [each.ts for each in found] == sorted(each.ts for each in found)
    told = {each.kind: each for each in found}
    assert {"hand-over", "dead letter", "pause", "resume", "redrive", "discard"} <= set(told)
    assert "error ValueError: out of stock, events 2, attempts 1" in {
        each.what for each in found if each.kind == "dead letter"
    }
    assert (told["redrive"].who, told["redrive"].offset) == ("ann", dead.place.offset)
    assert (told["discard"].who, told["discard"].what) == (
        "bob",
        f"reason a test, events {other.events}",
    )
    assert told["pause"].what == "reason bad deploy"
    assert told["pause"].group == "billing"
    assert (told["hand-over"].topic, told["hand-over"].partition) == ("orders", 0)
    assert told["hand-over"].what == "epoch 1"
    printed = command("status", "--since", "1h")["happenings"]
    assert [row["kind"] for row in printed] == [each.kind for each in found]


def test_members_and_seeks(conn: Connection, orders: None) -> None:
    conn.execute(
        "insert into gapless.eviction (member_id, name, reason)"
        " values (gen_random_uuid(), 'a', 'its session ended')"
    )
    ops.seek(conn, ops.GroupPlace.parse("billing/orders"), ops.Point(offset=4))
    conn.execute("update gapless.lease set error = 'stopped: a hole', error_ts = now()")
    conn.execute(
        "insert into gapless.lease (group_id, topic_id, partition_id, error, error_ts)"
        " select group_id, topic_id, 0, 'stopped: a hole', now() from gapless.consumer_group"
        " on conflict do nothing"
    )
    told = {each.kind: each for each in ops.happened_since(conn, 60)}
    assert (told["evicted"].who, told["evicted"].what) == ("a", "reason its session ended")
    assert told["seek"].what == "from 1, to 4"
    assert told["error"].what == "error stopped: a hole"


def test_it_is_bounded_in_time_and_rows(conn: Connection, orders: None, command: Command) -> None:
    conn.execute(
        "insert into gapless.audit (at_ts, action, group_id, topic_id, detail)"
        " select now() - make_interval(secs => n), 'pause', 'billing', 1, '{}'"
        " from generate_series(1, 3000) n"
    )
    assert len(ops.happened_since(conn, 100.5)) == 100
    newest = ops.happened_since(conn, 7200)
    assert len(newest) == ROWS_MAX
    assert newest == ops.happened_since(conn, 1000.5), "the newest of them"
    assert len(ops.happened_since(conn, 7200, rows_max=3)) == 3
    for since_s, rows_max in ((0, 1), (-1, 1), (1e12, 1), (60, 0), (60, ROWS_MAX + 1)):
        with pytest.raises(UsageError, match="must be"):
            ops.happened_since(conn, since_s, rows_max=rows_max)
