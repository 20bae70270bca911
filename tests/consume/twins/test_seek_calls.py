"""seek() and its parts: what is refused, what is locked, and what changes where a group is moved."""

from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection

from consume.twins.seeking import placed
from support.twins import Twins

__all__ = ["placed"]  # fixtures

SEEK = "create temp table told on commit drop as select * from gapless.seek({})"
AT = "consumer_offsets billing orders"
NO_TARGET = "where to? Say one of earliest, latest, an offset, a time, a transaction"
DAYS = (
    "update gapless.outbox_message_t o set created_ts = '2020-01-01Z'::timestamptz + c.n * interval '1 day'"
    " from (select s.base_offset + u.n - 1 as n, u.id"
    " from gapless.log_segment s, unnest(s.message_ids) with ordinality u (id, n)) c where c.id = o.id"
)
STARTS = "insert into gapless.log_start values (%(topic)s, %(partition)s, %(first)s, %(ts)s)"
LOCKED = "select {} from gapless.{} where xmax = pg_current_xact_id()::xid order by 1, 2"


def starts(twins: Twins, first: int, ts: str, partition: int = 1, topic: str = "orders") -> None:
    """What is before this offset is gone."""
    words = {"topic": twins.topic_ids[topic], "partition": partition, "first": first, "ts": ts}
    twins.conn.execute(STARTS, words)


TARGETS: dict[str, tuple[str, str, str]] = {
    "none": ("", "GL400", NO_TARGET),
    "two": ("to_end => 'latest', to_offset => 1", "GL400", NO_TARGET),
    "all": ("to_end => 'latest', to_offset => 1, to_time => now(), to_transaction => uuidv7()", "GL400", NO_TARGET),
    "no such end": ("to_end => 'middle'", "GL400", "a group can go to earliest or latest, not to middle"),
    "nowhere": ("to_transaction => {gone}", "GL404", 'no event of transaction {gone} is in a topic of group "billing"'),
    "not yet": ("to_transaction => {new}", "GL409", "transaction {new} has no offsets yet: the sequencer has not come to it"),
    "beyond the end": ("to_offset => 10, partition_id => 1, topic => 'orders'", "GL400",
                       "offset 10 is beyond the end of orders/1: the next event gets offset 9"),
    "before all": ("to_offset => 0, partition_id => 1, topic => 'orders'", "GL400",
                   "offset 0 of orders/1 is not there (any more): the earliest is 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", TARGETS)
def test_where_nobody_can_go(twins: Twins, second: Connection[Any], name: str) -> None:
    """What this transaction publishes is older than that of another session, which is over."""
    target, state, said = TARGETS[name]
    ids = {"gone": uuid4(), "new": uuid4()}
    twins.conn.execute(
        "insert into gapless.outbox_message_t (topic_id, key, payload, transaction_id) values (%s, 'k', '1', %s)",
        [twins.topic_ids["orders"], ids["new"]],
    )
    second.execute("select pg_current_xact_id()")
    quoted = {key: f"'{value}'" for key, value in ids.items()}
    arguments = ", ".join(filter(None, ["'billing'", target.format(**quoted)]))
    query = f"select * from gapless.seek({arguments})"
    if name == "all":
        query = query.replace("uuidv7()", quoted["gone"])
    assert twins.refused(query) == (state, said.format(**ids))


def test_a_time_that_is_still_to_come(twins: Twins) -> None:
    query = "select * from gapless.seek_plan('billing', to_time => clock_timestamp() + interval '1 min')"
    state, said = twins.refused(query)
    assert (state, " is in the future: the database's clock says " in said) == ("GL400", True)
    rows = "select * from gapless.seek_plan('billing', to_time => clock_timestamp())"
    assert len(twins.conn.execute(rows).fetchall()) == 6


def test_whose_transaction_it_is(twins: Twins, second: Connection[Any]) -> None:
    """Of a group that is not there nothing is said of a transaction; of one topic only what is in it."""
    call = "select * from gapless.seek_plan(%s, to_transaction => %s)"
    state, said = twins.refused(call, ["nobody", uuid4()])
    assert (state, "no event of transaction" in said) == ("GL404", False)
    late = twins.value("select transaction_id from gapless.read('orders', 0, 9, 9)")
    twins.conn.execute("select gapless.create_group('alone', 'other')")
    said = f'no event of transaction {late} is in a topic of group "alone"'
    assert twins.refused(call, ["alone", late]) == ("GL404", said)
    unsequenced = uuid4()
    twins.conn.execute(
        "insert into gapless.outbox_message_t (topic_id, key, payload, transaction_id) values (%s, 'k', '1', %s)",
        [twins.topic_ids["orders"], unsequenced],
    )
    second.execute("select pg_current_xact_id()")
    said = f'no event of transaction {unsequenced} is in a topic of group "alone"'
    assert twins.refused(call, ["alone", unsequenced]) == ("GL404", said)


@pytest.mark.parametrize(("offset", "is_there"), [(3, False), (4, True), (9, True), (10, False)])
def test_from_the_first_that_is_there_to_the_end(
    twins: Twins, offset: int, *, is_there: bool
) -> None:
    starts(twins, 4, "-infinity")
    call = "select gapless.checked_offset('orders', %s, 1, %s)"
    params = [twins.topic_ids["orders"], offset]
    if is_there:
        assert twins.value(call, *params) == offset
    else:
        assert twins.refused(call, params)[0] == "GL400"


# What is gone: from this time it was sequenced, in which partition, of which topic; where the fifth of January is.
GONE: dict[str, tuple[str, int, str, int | None]] = {
    "nothing of then": ("2020-01-04Z", 1, "orders", 4),
    "the newest of then": ("2020-01-05Z", 1, "orders", 4),
    "some of then": ("2020-01-05 00:00:00.000001Z", 1, "orders", None),
    "in another partition": ("2020-02-01Z", 2, "orders", 4),
    "of another topic": ("2020-02-01Z", 1, "other", 4),
}


@pytest.mark.parametrize("name", GONE)
def test_a_time_of_which_all_is_there(twins: Twins, name: str) -> None:
    ts, partition, topic, found = GONE[name]
    twins.conn.execute(DAYS)
    starts(twins, 3, ts, partition, topic)
    call = "select gapless.checked_time('orders', %s, 1, '2020-01-05Z')"
    params = [twins.topic_ids["orders"]]
    if found:
        assert twins.value(call, *params) == found
    else:
        said = "events of orders/1 from 2020-01-05T00:00:00.000Z are not there any more: the earliest is of {}"
        assert twins.refused(call, params) == ("GL400", said.format("2020-01-04T00:00:00.000Z"))
        twins.lose(3)
        assert twins.refused(call, params) == ("GL400", said.format("later, for none is there"))


def test_a_seek_moves_what_is_meant_and_nothing_else(placed: Twins) -> None:
    """Letters from there on are gone; what was before stays."""
    changed = placed.changes(SEEK.format("'billing', 'orders', 1, to_offset => 5"))
    rows = placed.conn.execute("select * from told").fetchall()
    assert rows == [("orders", 1, 7, 4, 3, 0, 3, False)]
    moved = changed.pop(f"{AT} 1")
    assert moved.pop("token")[1] is None
    assert moved == {
        "next_offset": (7, 4), "attempt_offset": (7, None), "attempts": (2, 0), "installed_offset": (7, None),
        "layout": (1, 0), "passed": (1, 0),
    }  # fmt: skip
    assert placed.value("select detail from gapless.audit") == {
        "from": 7, "to": 4, "letters": {"dead": 1}
    }  # fmt: skip
    changed.pop("audit seek billing orders 1")
    assert {name for name in changed if not name.startswith("guard_keys ")} >= {
        "dead_letter billing orders 1 4"
    }
    assert all(
        name.startswith(("guard_keys ", "dead_letter"))
        and ("guard_keys" in name or " billing orders 1 " in name)
        for name in changed
    )
    assert not any(name.endswith(" 1 3") for name in changed)


@pytest.mark.parametrize(
    ("said", "places"),
    [
        ("'billing'", [(t, n) for t in ("other", "orders") for n in range(3)]),
        ("'billing', 'orders'", [("orders", n) for n in range(3)]),
        ("'billing', 'orders', 1", [("orders", 1)]),
    ],
)  # fmt: skip
def test_a_seek_holds_what_it_looks_at(twins: Twins, said: str, places: list[Any]) -> None:
    """Also where it moves nothing: topics, for retention, and the places of the group."""
    twins.conn.execute("select gapless.create_group('alone', 'other')")
    twins.conn.execute(SEEK.format(f"{said}, to_end => 'earliest'"))
    assert twins.conn.execute(
        "select topic_name, partition_no from told order by 1, 2"
    ).fetchall() == sorted(places)
    ids = twins.topic_ids
    locked = twins.conn.execute(
        LOCKED.format("group_id, topic_id, partition_id", "consumer_offsets")
    ).fetchall()
    assert sorted(locked) == sorted(("billing", ids[topic], n) for topic, n in places)
    topics = twins.conn.execute(LOCKED.format("name, topic_id", "topic")).fetchall()
    assert topics == [("orders", ids["orders"]), ("other", ids["other"])]
    held = "select objid::int from pg_locks where classid = 7427003::oid and pid = pg_backend_pid() order by 1"
    leases = sorted(twins.leases["billing", topic, n] for topic, n in places)
    assert [each for (each,) in twins.conn.execute(held)] == leases


def test_topics_that_a_group_has_not_are_not_held(twins: Twins) -> None:
    twins.conn.execute("select gapless.create_group('alone', 'other')")
    twins.conn.execute(SEEK.format("'alone', to_end => 'latest'"))
    topics = twins.conn.execute(LOCKED.format("name, topic_id", "topic")).fetchall()
    assert topics == [("other", twins.topic_ids["other"])]


def test_a_place_that_was_lost_is_found_by_a_seek(twins: Twins) -> None:
    twins.conn.execute(f"delete from gapless.consumer_offsets where {twins.here()}")
    changed = twins.changes(SEEK.format("'billing', 'orders', 1, to_offset => 3"))
    assert changed[f"{AT} 1"]["next_offset"] == (None, 3)


def test_a_pause_ends_with_the_seek_that_it_is_for(twins: Twins) -> None:
    """Those of others do not."""
    holder, other = uuid4(), uuid4()
    for each in (holder, other):
        twins.conn.execute("select gapless.pause('billing', 'orders', 1, holder => %s)", [each])
    twins.conn.execute("select gapless.pause('billing', 'orders', 2, holder => %s)", [holder])
    left = "select holder, partition_id from gapless.group_pause order by 2, 1"
    for said in ("", f", holder => '{holder}'"):
        before = twins.conn.execute(left).fetchall()
        twins.conn.execute("drop table if exists told")
        twins.conn.execute(SEEK.format(f"'billing', 'orders', 1, to_offset => 3{said}"))
        gone = set(before) - set(twins.conn.execute(left).fetchall())
        assert gone == ({(holder, 1)} if said else set())
