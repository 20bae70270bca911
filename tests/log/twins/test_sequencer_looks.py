"""Whether events wait, and for whom; whether the floor is late: what decides it, and what does not."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from psycopg import Connection

from support.blocked import until_blocked
from support.twins import Twins

NEWEST = "update gapless.sequencer set {} where run = (select max(run) from gapless.sequencer)"
WAITS = "floor_id = 0, snapshot = '5:5:'"
STRAYS = (
    "insert into gapless.unrouted (topic_id, events, first_id, last_id)"
    " select t, 1, 1, 1 from unnest(%s::int[]) t"
)
LOCK = "lock table gapless.{} in {} mode"
HERE = "topic_id = %s and partition_id = 1"
SEEN = "snapshot = ({xid} + 1 || ':' || {xid} + 1 || ':')::pg_snapshot"

# What the newest run remembers of the newest event, whose id is {last} and whose transaction {xid}; does it wait?
REMEMBERED = {
    "nothing": (WAITS, True),
    "its xid": (f"floor_id = 0, {SEEN}", False),
    "an xid that was the next one": (
        "floor_id = {last} - 1, snapshot = ({xid} || ':' || {xid} || ':')::pg_snapshot", True,
    ),
    "its id": ("floor_id = {last}, snapshot = '5:5:'", False),
    "that it was in progress": (
        "floor_id = {last} - 1, snapshot = ({xid} || ':' || {xid} + 1 || ':' || {xid})::pg_snapshot", True,
    ),
    "that others were in progress": (
        "floor_id = 0, snapshot = ('5:' || {xid} + 1 || ':5')::pg_snapshot", False,
    ),
    "that it was in progress, and its id": (
        "floor_id = {last}, snapshot = ({xid} || ':' || {xid} + 1 || ':' || {xid})::pg_snapshot", False,
    ),
}  # fmt: skip


def remember(twins: Twins, words: str) -> None:
    """Let the newest run have written this."""
    query = "select id, xid::text from gapless.outbox_message_t order by id desc limit 1"
    ((last, xid),) = twins.conn.execute(query).fetchall()
    twins.conn.execute(NEWEST.format(words.format(last=last, xid=xid)).encode())


@pytest.mark.parametrize("name", REMEMBERED)
def test_an_event_waits_that_no_run_has_seen(twins: Twins, name: str) -> None:
    words, waits = REMEMBERED[name]
    remember(twins, words)
    assert twins.value("select gapless.pending()") is waits
    run = twins.value("select max(run) from gapless.sequencer")
    assert twins.value("select gapless.stands_still()") == (run if waits else None)


@pytest.mark.parametrize("has_unrouted", [True, False])
@pytest.mark.parametrize("is_topic", [True, False])
def test_those_of_no_topic_wait_once_there_is_one(
    twins: Twins, has_unrouted: bool, is_topic: bool
) -> None:
    remember(twins, f"floor_id = 0, {SEEN}, has_unrouted = {has_unrouted}")
    twins.conn.execute(STRAYS, [[777, twins.topic_ids["orders"]] if is_topic else [777]])
    assert twins.value("select gapless.pending()") is (has_unrouted and is_topic)


@pytest.mark.parametrize(
    ("table", "mode", "is_at_it"),
    [
        ("guard_sequencing", "exclusive", True),
        ("guard_sequencing", "share row exclusive", False),
        ("guard_topics", "exclusive", False),
    ],
)
def test_who_sequences_has_its_guard(
    twins: Twins, other: Connection[Any], table: str, mode: str, is_at_it: bool
) -> None:
    remember(twins, WAITS)
    other.execute(LOCK.format(table, mode).encode())
    assert (twins.value("select gapless.stands_still()") is None) is is_at_it


def test_who_sequences_another_log_is_not_at_this_one(
    twins: Twins, elsewhere: Connection[Any]
) -> None:
    remember(twins, WAITS)
    number = "select 'gapless.guard_sequencing'::regclass::oid"
    assert elsewhere.execute(number).fetchone() == (twins.value(number),)
    with elsewhere.transaction():
        elsewhere.execute(LOCK.format("guard_sequencing", "exclusive").encode())
        assert twins.value("select gapless.stands_still()") is not None


def test_who_waits_for_the_guard_is_not_at_it(twins: Twins, other: Connection[Any]) -> None:
    remember(twins, WAITS)
    wanted = LOCK.format("guard_sequencing", "exclusive").encode()
    with ThreadPoolExecutor() as pool:
        with twins.conn.transaction(force_rollback=True):
            twins.conn.execute(LOCK.format("guard_sequencing", "share").encode())
            call = pool.submit(other.execute, wanted)
            until_blocked(twins.conn, other, call)
            assert twins.value("select gapless.stands_still()") is not None
        call.result()


# The floor and the newest id, counted from the last id of the first chunk; how many events a chunk is to have;
# how many seconds ago the newest run was, and how far the oldest transaction is before its next floor.
FLOORS: dict[str, tuple[int, int, int, int, int, bool]] = {
    "the chunk is complete": (-1, 0, 1000, 0, 0, True),
    "it has room for one more": (-2, -1, 1000, 2, 0, False),
    "it is behind the floor": (0, 5, 1000, 2, 0, False),
    "long ago": (-500, 500, 1000, 0, 0, True),
    "somebody runs that may have ids": (-1, 0, 1000, 2, 1, False),
    "nothing is above the floor": (0, 0, 1000, 2, 0, False),
    "chunks of another size, just now": (-1, 0, 10**9, 0, 0, False),
    "chunks of another size, after a while": (-1, 0, 10**9, 2, 0, True),
}
FLOOR = (
    "select gapless.floor_is_late((jsonb_populate_record(s, jsonb_build_object('floor_id', %s::bigint, 'ran_ts',"
    " clock_timestamp() - %s * interval '1 s', 'next_floor_xid',"
    " (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + %s)::text))), %s::bigint)"
    " from gapless.sequencer s limit 1"
)


@pytest.mark.parametrize("name", FLOORS)
def test_the_floor_is_late_behind_a_complete_chunk(twins: Twins, name: str) -> None:
    floor, allocated, size, ago, before, is_late = FLOORS[name]
    last = twins.value("select min(upto) - 1 from gapless.chunk")
    twins.conn.execute("update gapless.log_config set chunk_events = %s", [size])
    params = [last + floor, ago, before, last + allocated]
    assert twins.value(FLOOR, *params) is is_late


def test_of_what_an_offset_was_given_on(twins: Twins) -> None:
    """Each segment has its timeline; that of an offset is its own segment's."""
    twins.conn.execute("update gapless.log_segment set timeline = base_offset")
    twins.conn.execute(
        f"update gapless.log_segment set timeline = 100 + base_offset where {HERE}",
        [twins.topic_ids["orders"]],
    )
    segments = twins.conn.execute(
        f"select base_offset, last_offset from gapless.log_segment where {HERE} order by 1",
        [twins.topic_ids["orders"]],
    ).fetchall()
    assert len(segments) == 3
    found = {
        n: twins.value("select gapless.timeline_at(%s, 1, %s)", twins.topic_ids["orders"], n)
        for n in range(9)
    }
    expected = {n: 100 + base for base, last in segments for n in range(base, last + 1)}
    assert found == {0: None} | expected
