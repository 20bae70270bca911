"""topics and groups: list, create, show; Kafka's columns; lag."""

import psycopg
import pytest

from gapless import ops
from gapless.db.connect import connect
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence, try_role
from gapless.log.topics import ensure_topic


def test_topics(gapless) -> None:
    nothing = gapless("topics")
    assert (nothing.code, nothing.out) == (0, "")
    assert nothing.err.startswith("gapless: no topic yet")
    assert gapless("topics", "create", "orders", "--partitions", "3").lines == [
        "created topic orders with 3 partitions"
    ]
    for again in (("orders",), ("orders", "--partitions", "3")):
        done = gapless("topics", "create", *again)
        assert done.out == "nothing to do: there is a topic orders with 3 partitions\n"
    gapless("publish", "orders", "-", "--wait", stdin='{"payload": 1}\n' * 5)
    (row,) = gapless("topics", "--json").json
    assert (row["topic"], row["partitions"], row["events"], row["groups"]) == ("orders", 3, 5, 0)
    assert row["created"].endswith("Z")
    head, line = gapless("topics", "list").lines
    assert head.split() == "TOPIC PARTITIONS EVENTS GROUPS RETENTION DEDUPE-WINDOW CREATED".split()
    assert line.split()[:7] == ["orders", "3", "5", "0", "forever", "7", "days"]
    assert row["dedupe_window"] == "7 days"


def test_the_partitions_of_a_topic(gapless, conn: psycopg.Connection) -> None:
    ensure_topic(conn, "orders", partitions=2)
    publish(conn, "orders", [NewEvent(payload=n, key=str(n)) for n in range(40)])
    sequence(conn)
    rows = gapless("topics", "show", "orders", "--json").json
    assert [row["partition"] for row in rows] == [0, 1]
    assert sum(row["events"] for row in rows) == 40
    for row in rows:
        assert (row["log_start_offset"], row["log_end_offset"]) == (1, row["events"] + 1)
    head = "TOPIC PARTITION LOG-START-OFFSET LOG-END-OFFSET EVENTS ABOUT-BYTES STATE"
    assert gapless("topics", "show", "orders").lines[0].split() == head.split()


def test_groups(gapless, conn: psycopg.Connection) -> None:
    assert gapless("groups", "--json").json == []
    ensure_topic(conn, "orders", partitions=2)
    publish(conn, "orders", [NewEvent(payload=n, key=str(n)) for n in range(40)])
    sequence(conn)
    created = gapless("groups", "create", "all", "orders").out
    assert created == "created group all of topic orders, from earliest\n"
    gapless("groups", "create", "new", "orders", "--from", "latest")
    again = gapless("groups", "create", "all", "orders", "--from", "latest")
    assert again.out == "nothing to do: there is a group all of topic orders\n"
    rows = gapless("groups", "--json").json
    assert [(row["group"], row["lag"], row["state"]) for row in rows] == [
        ("all", 40, "Empty"),
        ("new", 0, "Empty"),
    ]


@pytest.mark.long
def test_the_lag_of_a_group(gapless, conn: psycopg.Connection) -> None:
    ensure_topic(conn, "orders", partitions=2)
    ensure_topic(conn, "bills", partitions=1)
    for topic in ("orders", "bills"):
        gapless("groups", "create", "g", topic)
    publish(conn, "orders", [NewEvent(payload=n, key=str(n)) for n in range(40)])
    sequence(conn)
    done = gapless("groups", "show", "g")
    assert done.lines[0].split() == (
        "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG MEMBER EPOCH ERROR".split()
    )
    rows = gapless("groups", "show", "g", "--json").json
    assert [(row["topic"], row["partition"]) for row in rows] == [
        ("bills", 0),
        ("orders", 0),
        ("orders", 1),
    ]
    assert sum(row["lag"] for row in rows) == 40
    for row in rows:
        assert row["lag"] == row["log_end_offset"] - row["current_offset"]
    only = gapless("groups", "show", "g", "--topic", "bills", "--json").json
    assert [row["topic"] for row in only] == ["bills"]
    assert 'of topic "x"' in gapless("groups", "show", "g", "--topic", "x").complaint()


@pytest.mark.long
def test_alter_a_topic(gapless, conn: psycopg.Connection) -> None:
    ensure_topic(conn, "orders", partitions=4)
    gapless("groups", "create", "billing", "orders")
    publish(conn, "orders", [NewEvent(payload=n, key=str(n)) for n in range(40)])
    done = gapless("topics", "alter", "orders", "--partitions", "2")
    assert done.code == 0
    assert done.out.startswith("topic orders has 2 partitions now, 4 before: events that are there")
    left = "topic orders, group billing: from 4 to 2 partitions, 40 events to finish first in"
    assert f"{left} partitions 0, 1, 2, 3" in done.err
    assert left in gapless("topics").err
    again = gapless("topics", "alter", "orders", "--partitions", "2")
    assert again.out == "nothing to do: topic orders has 2 partitions\n"
    rows = gapless("topics", "show", "orders", "--json").json
    assert [row["state"] for row in rows] == ["active", "active", "old", "old"]
    assert sum(row["events"] for row in rows) == 40
    assert gapless("topics", "--json").json[0]["events"] == 40
    publish(conn, "orders", [NewEvent(payload=n, key=str(n)) for n in range(9)])
    sequence(conn)
    assert len(gapless("tail", "orders", "--from", "earliest", "--json").lines) == 49
    for key in ("1", "2", "3"):
        seen = gapless("tail", "orders", "--from", "earliest", "--key", key, "--json").lines
        assert len(seen) == 2, "before the change and after it"


def test_alter_warns_of_a_configuration_that_says_otherwise(
    gapless, conn: psycopg.Connection
) -> None:
    ensure_topic(conn, "orders", partitions=4)
    said = {"DB_EVENT_CONSUMER_TOTALPARTITIONS": "4"}
    done = gapless("topics", "alter", "orders", "--partitions", "6", **said)
    assert done.code == 0
    assert "warning: totalPartitions is 4 in environment" in done.err


@pytest.mark.long
def test_status_of_a_change(gapless, conn: psycopg.Connection) -> None:
    ensure_topic(conn, "orders", partitions=4)
    gapless("groups", "create", "g", "orders")
    publish(conn, "orders", [NewEvent(payload=n, key=str(n)) for n in range(40)])
    gapless("topics", "alter", "orders", "--partitions", "7")
    publish(conn, "orders", [NewEvent(payload=n, key=str(n)) for n in range(40)])
    sequence(conn)
    look = gapless("status", "--json").json
    (change,) = look["changes"]
    assert (change["group"], change["topic"]) == ("g", "orders")
    assert (change["partitions_before"], change["partitions"]) == (4, 7)
    assert (change["unfinished"], change["events"]) == ([0, 1, 2, 3], 40)
    waits = {row["partition"]: row["waits_for"] for row in look["partitions"]}
    assert waits == {key: [] for key in range(4)} | {key: [0, 1, 2, 3] for key in (4, 5, 6)}
    assert (look["topics"][0]["partition_count"], len(look["topics"][0]["partitions"])) == (7, 7)
    assert gapless("status").code == 0


def test_what_nobody_sequences_is_told_beside_every_lag(gapless, conn: psycopg.Connection) -> None:
    """A lag of 0 is no good news while events have no offset."""
    ensure_topic(conn, "orders", partitions=1)
    ops.create_group(conn, "ordered", "orders")
    ops.create_group(conn, "queue", "orders", mode="queue")
    shown = (
        *("status", "groups", "groups show ordered", "topics", "topics show orders"),
        *("queue state queue", "queue peek queue", "queue take queue/orders"),
    )

    def told(command: str) -> bool:
        done = gapless(*command.split())
        assert done.code == 0, done
        said = done.out if command == "status" else done.err
        return (
            "2 events wait without an offset" in said
            and "and no supervisor gives any: start gapless run" in said
        )

    publish(conn, "orders", 1)
    assert told("publish orders 2")
    assert [command for command in shown if not told(command)] == []
    with connect(conn.info.dsn, role="sequencer") as sequencer:
        assert try_role(sequencer)
        assert not told("groups"), "they get them"
    sequence(conn)
    assert not told("groups"), "they have them"
