"""The retention of topics, and the command that shows what goes and drops it."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import Connection

from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic
from support.chunks import next_chunk, small_chunks

Gapless = Callable[..., Any]
OLD = "update gapless.chunk_end set newest_ts = newest_ts - interval '8 days'"


@pytest.fixture
def chunks(conn: Connection) -> Connection:
    """Two chunks of ten events, complete, and three events in another one."""
    small_chunks(conn)
    ensure_topic(conn, "orders", partitions=1)
    for events in (10, 10, 3):
        for n in range(events):
            publish(conn, "orders", {"n": n}, key="k")
            sequence(conn)
        if events == 10:
            next_chunk(conn)
    return conn


@pytest.mark.long
def test_what_goes_is_shown_and_then_dropped(gapless: Gapless, chunks: Connection) -> None:
    done = gapless("topics", "alter", "orders", "--retention", "7d")
    assert done.out == "topic orders keeps its events for 7d, at least\n"
    rows = gapless("retention", "--json").json
    assert [row["goes"] for row in rows] == [False] * len(rows)
    assert rows[0]["why_it_stays"].startswith("topic orders keeps events until 20")
    chunks.execute(OLD)
    shown = gapless("retention")
    assert shown.lines[0].split() == ["CHUNK", "EVENTS", "SIZE", "NEWEST", "GOES", "WHY-IT-STAYS"]
    assert "nothing was dropped: 2 chunks would go, which frees " in shown.err
    done = gapless("retention", "--apply")
    assert (done.code, done.err) == (0, "gapless: dropped the events of 2 chunks\n")
    (row,) = gapless("topics", "show", "orders", "--json").json
    assert (row["log_start_offset"], row["log_end_offset"], row["events"]) == (21, 24, 3)
    assert [event["offset"] for event in _tail(gapless)] == [21, 22, 23]
    again = gapless("seek", "late", "--offset", "20")
    assert again.complaint() == 'there is no group "late": gapless groups lists them'
    gapless("groups", "create", "late", "orders")
    refused = gapless("seek", "late", "--offset", "20").complaint()
    assert refused == "offset 20 of orders/0 is not there (any more): the earliest is 21"
    refused = gapless("seek", "late", "--time", "2020-01-01T00:00:00Z").complaint()
    assert "are not there any more: the earliest is of 20" in refused


def _tail(gapless: Gapless) -> list[Any]:
    import json

    return [
        json.loads(line) for line in gapless("tail", "orders", "--from", "earliest", "--json").lines
    ]


@pytest.mark.long
def test_doctor_and_status_say_for_whom_a_chunk_stays(gapless: Gapless, chunks: Connection) -> None:
    gapless("groups", "create", "slow", "orders")
    gapless("topics", "alter", "orders", "--retention", "7d", "--archive", "cold")
    gapless("retention")
    reason = "group slow has yet to handle 10 events of orders, and no worker serves it"
    assert reason not in gapless("doctor").out, "the chunks are young"
    chunks.execute(OLD)
    assert reason in gapless("doctor").out
    held = gapless("status", "--json").json["held"]
    assert held[0] == reason
    assert held[1].startswith("topic orders waits for pipeline cold, which has never run: ")
    assert len(held) == 2
    done = gapless(
        "topics", "alter", "orders", "--archive", "none", "--overrun", "slow,pipeline.warm"
    )
    assert done.out == (
        "topic orders keeps its events for 7d, at least, whatever slow, pipeline.warm have handled\n"
    )
    assert gapless("status", "--json").json["held"] == []
    assert "dropped the events of 2 chunks" in gapless("retention", "--apply").err


@pytest.mark.long
def test_retention_of_a_new_topic(gapless: Gapless, conn: Connection) -> None:
    gapless("topics", "create", "a", "--retention", "36h")
    gapless("topics", "create", "b", GAPLESS_RETENTIONS="60")
    gapless("topics", "create", "c", "--retention", "forever", GAPLESS_RETENTIONS="60")
    found = {row["topic"]: row["retention"] for row in gapless("topics", "--json").json}
    assert (found["a"], found["b"], found["c"]) == ("1 day 12:00:00", "00:01:00", "forever")
