"""Events of topic ids that nobody made: kept, counted, in nobody's way, and adopted on demand (I1, I11)."""

from typing import Any

import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from gapless.db.connect import connect
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import (
    Topic,
    adopt_topic,
    ensure_topic,
    find_topic,
)
from gapless.status.look import snapshot
from support.log import assert_gapless, placed, tags

INSERT = "insert into gapless.outbox_message_t (topic_id, key, event_type) values (%s, %s, %s)"
MANY = """insert into gapless.outbox_message_t (topic_id, key, event_type)
    select n, 'k', 'id ' || n from generate_series(1000, %s) n"""
ID_MAX = 2**31 - 1


def _unrouted(conn: Connection) -> dict[int, int]:
    return {row.topic_id: row.events for row in snapshot(conn).unrouted}


def _stored(conn: Connection, what: str) -> Any:
    row = conn.execute(f"select {what}".encode()).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.invariant("I11")
@pytest.mark.parametrize("topic_id", [2, 77, ID_MAX])
def test_they_are_kept_and_stop_nobody(conn: Connection, topic: Topic, topic_id: int) -> None:
    ensure_topic(conn, f"topic-{topic_id}", partitions=2)  # the name an adopted one once got
    used = find_topic(conn, f"topic-{topic_id}")
    assert used is not None
    stray = topic_id + 1 if topic_id == used.topic_id else topic_id
    for n in range(3):
        conn.execute(INSERT, [stray, "k", f"stray {n}"])
        publish(conn, "outbox", n, event_type=f"event {n}")
        assert sequence(conn) == 1
    assert _unrouted(conn) == {stray: 3}
    assert sorted(map(str, tags(placed(conn)))) == ["event 0", "event 1", "event 2"]
    made = ensure_topic(conn, "later", partitions=1)
    assert made.topic_id not in {1, stray, used.topic_id}


@pytest.mark.parametrize("number", [50, 5000], ids=["listed", "one of many"])
def test_an_adopted_id_gets_all_its_events_in_their_order(
    conn: Connection, topic: Topic, number: int
) -> None:
    conn.execute(MANY, [1000 + number])
    wanted = 1000 + number - 3
    for n in range(3):
        conn.execute(INSERT, [wanted, "k", f"again {n}"])
        assert sequence(conn) == 0
    conn.execute(INSERT, [wanted, "k", "not seen yet"])
    adopted, events = adopt_topic(conn, wanted, "orders", partitions=4)
    assert adopted == Topic(topic_id=wanted, name="orders", partitions=4)
    publish(conn, "orders", 1, key="k", event_type="by name")
    assert events == 4
    assert sequence(conn) == 6
    log = placed(conn)
    assert_gapless(log)
    assert [tags for (at, _), found in log.items() if at == wanted for tags in [_tags(found)]] == [
        [f"id {wanted}", "again 0", "again 1", "again 2", "not seen yet", "by name"]
    ]
    total = _stored(conn, "count(*) from gapless.outbox_message_t")
    assert sum(_unrouted(conn).values()) == total - 6
    assert sequence(conn) == 0


def _tags(found: list[Any]) -> list[str | None]:
    return [event.tag for event in found]


def test_the_outbox_gets_what_was_published_before_it_was_made(conn: Connection) -> None:
    conn.execute("insert into gapless.outbox_message_t (key, event_type) values ('k', 'early')")
    assert sequence(conn) == 0
    assert _unrouted(conn) == {1: 1}
    assert ensure_topic(conn, "outbox", partitions=2).topic_id == 1
    assert sequence(conn) == 1
    assert list(map(str, tags(placed(conn)))) == ["early"]
    assert _unrouted(conn) == {}


def test_a_topic_made_between_the_looks_of_a_run_has_its_events_in_order(
    dsn: str, conn: Connection
) -> None:
    """An adoption that commits while a run has begun is seen whole, or in the next one."""
    conn.execute(INSERT, [77, "k", "kept"])
    assert sequence(conn) == 0
    with connect(dsn, role="operator") as operator, operator.transaction():
        adopt_topic(operator, 77, "seven", partitions=1)
        conn.execute(INSERT, [77, "k", "new"])
        assert sequence(conn) == 0
        assert _unrouted(conn) == {77: 2}
    assert sequence(conn) == 2
    assert [_tags(found) for found in placed(conn).values()] == [["kept", "new"]]


def test_what_a_run_has_not_seen_is_not_counted_twice(dsn: str, conn: Connection) -> None:
    conn.execute(MANY, [1300])
    assert sequence(conn) == 0
    with connect(dsn, role="late") as late, late.transaction():
        late.execute(INSERT, [1250, "k", "in progress"])
        conn.execute(INSERT, [1250, "k", "committed"])
        assert adopt_topic(conn, 1250, "orders", partitions=1)[1] == 1
        assert sequence(conn) == 2
    assert sequence(conn) == 1
    assert _unrouted(conn)[0] == 301 - 100 - 1
    assert [_tags(found) for found in placed(conn).values()] == [
        ["id 1250", "committed", "in progress"]
    ]


@pytest.mark.parametrize("role", ["gapless_producer", "gapless_consumer"])
def test_only_operators_adopt(dsn: str, conn: Connection, role: str) -> None:
    conn.execute(INSERT, [77, "k", "e"])
    sequence(conn)
    with psycopg.connect(make_conninfo(dsn, options=f"-c role={role}")) as other:
        for call in ("adopt_topic(77, 'a', 1)", "discard_unrouted()", "list_unrouted(77)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), other.transaction():
                other.execute(f"select gapless.{call}".encode())


def test_a_restored_log_counts_them_anew(conn: Connection, topic: Topic) -> None:
    """Their xids mean nothing here, and may be higher than all of this cluster."""
    conn.execute(INSERT, [77, "k", "kept"])
    conn.execute(INSERT, [1, "k", "event"])
    assert sequence(conn) == 1
    conn.execute("update gapless.outbox_message_t set xid = '1000000000'")
    conn.execute("update gapless.sequencer set system_identifier = 1")
    conn.execute(INSERT, [77, "k", "new"])
    assert sequence(conn) == 0
    assert _unrouted(conn) == {77: 2}
    adopt_topic(conn, 77, "seven", partitions=1)
    assert sequence(conn) == 2
    assert [_tags(found) for (at, _), found in placed(conn).items() if at == 77] == [
        ["kept", "new"]
    ]
