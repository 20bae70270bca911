"""Compacted topics from the command line, in status and in doctor."""

import pytest
from psycopg import Connection

from gapless.log.publish import publish
from gapless.log.sequence import sequence


@pytest.fixture
def prices(gapless, conn: Connection) -> str:
    """A compacted topic with an event that nobody has taken in, for long."""
    done = gapless("topics", "create", "prices", "--partitions", "1", "--compact")
    assert done.code == 0
    publish(conn, "prices", 1, key="tea")
    sequence(conn)
    return "prices"


def wait_long(conn: Connection) -> None:
    conn.execute("update gapless.log_segment set sequenced_ts = sequenced_ts - interval '1 h'")


def check(gapless) -> tuple[str, str]:
    done = gapless("doctor", "--json")
    (found,) = [each for each in done.json["checks"] if each["name"] == "compaction"]
    return found["level"], found["text"]


@pytest.mark.long
def test_a_topic_is_compacted_and_no_longer(gapless, conn: Connection, prices: str) -> None:
    conn.execute("select gapless.compact()")
    assert check(gapless) == ("ok", "1 topic, 1 key kept, 0 events to take in")
    (topic,) = gapless("topics", "--json").json
    assert topic["compacted"] is True
    done = gapless("topics", "alter", prices, "--no-compact")
    assert done.lines == [
        "topic prices is not compacted any more: gapless run removes the kept events"
    ]
    assert check(gapless) == (
        "warning", "of topic prices is off, and kept events are not removed yet"
    )  # fmt: skip
    refused = gapless("topics", "alter", prices, "--compact")
    assert "rows kept before are still being removed" in refused.complaint(refused.code)
    conn.execute("select gapless.compact()")
    done = gapless("topics", "alter", prices, "--compact", "--json")
    assert done.json == {"topic": prices, "compact": True}
    assert check(gapless)[0] == "ok"


@pytest.mark.long
def test_without_anybody_it_waits_and_that_is_said(gapless, conn: Connection, prices: str) -> None:
    (found,) = gapless("status", "--json").json["compactions"]
    assert found["topic"] == prices
    assert (found["lag"], found["keys"], found["is_on"]) == (1, 0, True)
    waits = (
        "compaction of topic prices stands still, 1 event waits, for 60m: gapless run continues it"
    )
    assert waits not in gapless("status").lines
    wait_long(conn)
    assert waits in gapless("status").lines
    level, text = check(gapless)
    assert level == "warning"
    assert "1 event wait to be taken in, none was for 1h" in text
    gapless("retention", "--apply")
    (found,) = gapless("status", "--json").json["compactions"]
    assert (found["lag"], found["keys"], found["stands_s"]) == (0, 1, None)


def test_a_group_begins_with_the_latest(gapless, prices: str) -> None:
    done = gapless("groups", "create", "shop", prices, "--start", "latest-per-key")
    assert done.lines == ["created group shop of topic prices, from latest-per-key"]
    other = gapless("topics", "create", "plain", "--partitions", "1")
    assert other.code == 0
    refused = gapless("groups", "create", "shop2", "plain", "--start", "latest-per-key")
    assert 'topic "plain" is not compacted: gapless topics alter plain --compact' in refused.err
