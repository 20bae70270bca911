"""Dedupe on the command line: a key for an event, a field of lines, the window of a topic."""

import json

import psycopg
import pytest

from gapless.log.topics import ensure_topic


@pytest.fixture(autouse=True)
def orders(conn: psycopg.Connection) -> None:
    ensure_topic(conn, "orders", partitions=1)


def _count(conn: psycopg.Connection) -> int:
    row = conn.execute("select count(*) from gapless.outbox_message_t").fetchone()
    assert row is not None
    return int(row[0])


def test_one_event_that_is_repeated(gapless, conn: psycopg.Connection) -> None:
    words = ("publish", "orders", '{"total": 5}', "--dedupe-key", "order-17", "--wait")
    first, second = gapless(*words), gapless(*words)
    assert (first.code, second.code) == (0, 0)
    assert first.out == second.out != ""
    assert "duplicate" not in first.err
    assert second.err.startswith("gapless: nothing was published: a duplicate")
    assert _count(conn) == 1


@pytest.mark.long
def test_lines_that_are_repeated(gapless, conn: psycopg.Connection) -> None:
    """As after a connection that was lost: the file again, from its beginning."""
    lines = [json.dumps({"payload": n, "dedupe_key": f"k{n}"}) for n in range(600)]
    part = "\n".join(lines[:250])
    assert (
        "published 250 events in 1 transaction" in gapless("publish", "orders", "-", stdin=part).err
    )
    again = gapless("publish", "orders", "-", "--batch", "100", stdin="\n".join(lines))
    assert again.code == 0
    assert "published 350 events in 6 transactions" in again.err
    assert "; 250 duplicates left out\n" in again.err
    assert _count(conn) == 600
    done = gapless("publish", "orders", "-", "--wait", stdin="\n".join(lines))
    assert "published 0 events" in done.err, "and it does not wait for what will never come"


@pytest.mark.parametrize("key", ["", "x" * 501])
def test_a_key_that_cannot_be(gapless, conn: psycopg.Connection, key: str) -> None:
    said = gapless("publish", "orders", "1", "--dedupe-key", key).complaint()
    assert said.startswith("--dedupe-key: dedupe_key must have 1 to 500 characters, not ")
    line = json.dumps({"payload": 1, "dedupe_key": key})
    said = gapless("publish", "orders", "-", stdin=f'{{"payload": 1}}\n{line}\n').complaint()
    assert said.startswith("standard input line 2: dedupe_key must have 1 to 500 characters")
    assert _count(conn) == 0


def test_other_lines_that_cannot_be(gapless, conn: psycopg.Connection) -> None:
    for value, what in ((5, "dedupe_key must be text"), ("a\0", "has a NUL character")):
        line = json.dumps({"payload": 1, "dedupe_key": value})
        assert what in gapless("publish", "orders", "-", stdin=line).complaint()
    said = gapless("publish", "orders", "-", "--dedupe-key", "a", stdin="").complaint()
    assert said == "--dedupe-key is for one event; lines have a dedupe_key each"
    assert _count(conn) == 0


@pytest.mark.long
def test_the_window_of_a_topic(gapless) -> None:
    gapless("topics", "create", "brief", "--partitions", "1", "--dedupe-window", "90m")
    windows = {row["topic"]: row["dedupe_window"] for row in gapless("topics", "--json").json}
    assert windows == {"brief": "01:30:00", "orders": "7 days"}
    done = gapless("topics", "alter", "orders", "--dedupe-window", "36h")
    assert done.out == "topic orders remembers dedupe keys for 1d12h\n"
    windows = {row["topic"]: row["dedupe_window"] for row in gapless("topics", "--json").json}
    assert windows["orders"] == "1 day 12:00:00"


@pytest.mark.long
def test_doctor_looks_at_the_keys(gapless, conn: psycopg.Connection) -> None:
    assert "dedupe keys take 0." in gapless("doctor").out
    conn.execute(
        "update gapless.dedupe_state set slot = 1, closing = 0, since_ts = now() - interval '2 h'"
    )
    assert "new ones are stored twice, for a transaction is open" in gapless("doctor").out
    conn.execute("update gapless.dedupe_state set closing = null, since_ts = now()")
    conn.execute("update gapless.dedupe_slot set closed_ts = now() - interval '8 d' where slot = 0")
    assert "some should have been dropped" in gapless("doctor").out
    gapless("retention", "--apply")
    assert "should have been dropped" not in gapless("doctor").out
