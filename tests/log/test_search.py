"""Searching a topic from its newest events back: page by page, and by a transaction."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import Connection

from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.search import EventSearch, FoundEvents, search_events
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic

EVENTS = 1300  # more than two slices of a partition


@pytest.fixture
def topic(conn: Connection[Any]) -> Topic:
    made = ensure_topic(conn, "orders", partitions=2)
    events = [
        NewEvent(payload={"n": n}, key=f"k{n % 10}", event_type="even" if n % 2 == 0 else "odd")
        for n in range(EVENTS)
    ]
    publish(conn, "orders", events)
    sequence(conn)
    return made


def numbers(found: FoundEvents) -> list[int]:
    return [json.loads(entry.payload or "")["n"] for entry in found.entries]


def test_a_transaction_is_found_without_a_walk(conn: Connection[Any], topic: Topic) -> None:
    wanted = uuid4()
    publish(
        conn, "orders", [NewEvent(payload={"n": -1}, key=k, transaction_id=wanted) for k in "ab"]
    )
    publish(conn, "orders", [{"n": n} for n in range(-9, -5)])
    sequence(conn)
    found = search_events(conn, topic, EventSearch(transaction_id=wanted))
    assert numbers(found) == [-1, -1]
    assert {entry.transaction_id for entry in found.entries} == {wanted}
    assert found.looked_at == 2
    nothing = search_events(conn, topic, EventSearch(transaction_id=UUID(int=1)))
    assert (list(nothing.entries), nothing.is_complete) == ([], True)


@pytest.mark.parametrize("wanted", [EventSearch(), EventSearch(key="k4")])
def test_pages_are_all_of_it_once(
    conn: Connection[Any], dsn: str, topic: Topic, wanted: EventSearch
) -> None:
    """Also where an event has a lower id than the one before it: it committed later."""
    with psycopg.connect(dsn) as late:
        publish(late, "orders", {"n": EVENTS}, key="k4")
        publish(conn, "orders", {"n": EVENTS + 1}, key="k4")
        sequence(conn)
    sequence(conn)
    places, pages = [], 0
    while True:
        found = search_events(conn, topic, wanted, limit=9 if wanted.key else 200, look_max=600)
        places += [(entry.partition, entry.offset) for entry in found.entries]
        pages += 1
        if found.is_complete:
            break
        wanted = replace(wanted, before=found.older)
    total = EVENTS // 10 + 2 if wanted.key else EVENTS + 2
    assert (len(places), len(set(places))) == (total, total)
    assert pages > 5
    for partition in (0, 1):
        offsets = [offset for number, offset in places if number == partition]
        assert offsets == sorted(offsets, reverse=True)
