"""What a claim reads: a few pages, however much is below the floor, above a straggler, or open."""

import re
from collections.abc import Callable
from typing import LiteralString

import pytest
from psycopg import Connection

from gapless.db.queries import query
from gapless.log.sequence import configure_chunks, create_chunks, sequence
from support.plans import pages
from support.queue import Queue, join, make

Sessions = Callable[[], Connection]
LOCKED = (
    "select count(*) from pg_locks l join pg_inherits i on i.inhrelid = l.relation"
    " where l.pid = pg_backend_pid() and i.inhparent = 'gapless.outbox_message_t'::regclass"
)
PAGES_MAX = 60  # of all kinds, for a claim of four events, the catalogue's included


def _warm(conn: Connection, call: LiteralString, *params: object) -> int:
    """The least of the sixth to the tenth call, all undone: by then plans are generic."""
    touched = []
    for _ in range(10):
        with conn.transaction(force_rollback=True):
            touched.append(pages(conn, f"select * from gapless.{call}", params))
    return min(touched[5:])


def _taken(conn: Connection, queue: Queue, hint: int | None) -> int:
    """The pages that a claim touches."""
    place = (queue.group, queue.topic_id, queue.lease, queue.block, hint)
    return _warm(conn, "take_next(%s, %s, 0, %s, %s, 4, %s)", *place)


@pytest.fixture
def held(open_session: Sessions) -> Connection:
    """A session whose snapshot stays."""
    conn = open_session()
    conn.execute("begin isolation level repeatable read")
    conn.execute("select count(*) from gapless.queue_range")
    return conn


@pytest.mark.long
def test_nothing_below_the_floor_is_read_while_a_snapshot_is_held(
    conn: Connection, held: Connection
) -> None:
    queue = make(conn, events=40_000, block=1)
    conn.execute(
        "insert into gapless.queue_range (lease_no, first_offset, last_offset, holder)"
        " select %s, n, n, '' from generate_series(1, 39000) n",
        [queue.lease],
    )
    while queue.sweep(conn):
        pass
    assert queue.floor(conn) == 39_001
    assert conn.execute("select count(*) from gapless.queue_range").fetchone() == (0,)
    assert _taken(conn, queue, 39_001) <= PAGES_MAX
    assert _taken(conn, queue, 39_000) <= PAGES_MAX, "a block that is finished"
    assert _taken(conn, queue, None) <= 2 * PAGES_MAX
    place = (queue.group, queue.topic_id)
    assert _warm(conn, "queue_places(%s, %s)", *place) <= PAGES_MAX
    assert _warm(conn, "queue_aside(%s, %s)", *place) <= PAGES_MAX
    assert _warm(conn, "take(%s, %s)", queue.group, "mails") <= 2 * PAGES_MAX
    assert _warm(conn, "is_past(%s, %s, 0, 39001, 39002, 39001)", *place) <= PAGES_MAX
    held.execute("rollback")


@pytest.mark.long
def test_behind_a_straggler_a_pass_from_the_floor_stays_short(
    conn: Connection, held: Connection
) -> None:
    queue = make(conn, events=6000, block=1)
    queue.reserve(conn)
    for n in range(2, 1800):
        queue.work(conn, n, most=1)
        if n % 64 == 0:
            queue.sweep(conn)
    assert _taken(conn, queue, 1800) <= PAGES_MAX
    few = _taken(conn, queue, None)
    for n in range(1800, 3600):
        queue.work(conn, n, most=1)
        if n % 64 == 0:
            queue.sweep(conn)
    assert _taken(conn, queue, None) <= 2 * few, "it does not grow with what is finished"
    held.execute("rollback")


def test_with_much_open_and_far_above_the_floor(conn: Connection) -> None:
    """A straggler, and 10^6 finished above it: made by hand as sweep() leaves them."""
    queue = make(conn, events=4000, block=4)
    conn.execute(
        "insert into gapless.queue_range (lease_no, first_offset, last_offset, holder)"
        " values (%s, 5, 3000, '')",
        [queue.lease],
    )
    assert _taken(conn, queue, 3001) <= PAGES_MAX
    assert _taken(conn, queue, 9) <= 2 * PAGES_MAX, "a hint that is far too low"


@pytest.mark.long
def test_tables_that_nobody_has_analysed(conn: Connection) -> None:
    """Plans are made while the tables are empty, and kept while they grow."""
    queue = make(conn, events=4000, block=4)
    first = _taken(conn, queue, 1)
    for n in range(900):
        queue.work(conn, n * 4 + 1)
    assert _taken(conn, queue, 3601) <= first + PAGES_MAX


def test_chunks_are_made_beside_thirty_workers_that_never_rest(
    conn: Connection, open_session: Sessions
) -> None:
    """At each moment they have claimed and not committed, with plans that they might keep."""
    queue = make(conn, events=30 * 8, block=1)
    configure_chunks(conn, chunk_events=1000, chunks_ahead=4)
    workers = [open_session() for _ in range(30)]
    for n, worker in enumerate(workers * 8):
        if n >= len(workers):
            worker.execute("rollback")
        worker.execute("begin")
        assert queue.take(worker, n + 1, most=1).outcome == "claimed"
    conn.execute("select setval('gapless.outbox_message_id_seq', max(upto)) from gapless.chunk")
    assert create_chunks(conn) > 0


def test_a_claim_locks_few_of_many_chunks(conn: Connection, open_session: Sessions) -> None:
    """A handler may take minutes: a lock on each chunk would fill the server's table of locks."""
    configure_chunks(conn, chunk_events=10_000_000, chunks_ahead=64)
    while create_chunks(conn):
        pass
    queue = make(conn, events=60, block=4)
    worker = open_session()
    for n in range(8):
        worker.execute("begin")
        taken = queue.take(worker, 4 * n + 1 if n else None)
        assert len(taken.events) == 4
        assert worker.execute(LOCKED).fetchone() <= (1,)
        queue.finish(worker, taken)
        assert worker.execute("show plan_cache_mode").fetchone() == ("auto",), "for the caller"
    worker.execute("begin")
    assert len(queue.reserve(worker, 4)) == 4
    assert worker.execute(LOCKED).fetchone() <= (1,)
    worker.execute("rollback")


def test_a_take_that_finds_nothing_looks_once_at_each_partition(conn: Connection) -> None:
    """Of a hundred: at the log's end and the floor, and at what is above it if there is anything."""
    conn.execute("select gapless.create_topic('mails', 100)")
    queue = join(conn, block=4, group="sender", topic="mails")
    take = ("take(%s, %s)", queue.group, "mails")
    assert _warm(conn, *take) <= 600, "idle"
    conn.execute(
        "insert into gapless.outbox_message_t (topic_id, event_type, key, payload)"
        " select %s, 'e', n, '{}' from generate_series(1, 1000) n",
        [queue.topic_id],
    )
    sequence(conn)
    conn.execute("select gapless.pause('sender', 'mails')")
    assert _warm(conn, *take) <= 600, "paused"
    conn.execute("select gapless.resume('sender', 'mails')")
    assert len([*iter(lambda: len(queue.reserve(conn, 4)), 0)]) > 200
    assert _warm(conn, *take) <= 2000, "all in hand"


@pytest.mark.parametrize(("stage", "name"), [("status", "partitions"), ("doctor", "queues")])
def test_a_look_at_many_partitions_lists_sessions_and_locks_once(
    conn: Connection, stage: str, name: str
) -> None:
    """Each list costs as much as there are; of a thousand partitions, with one each, 14 s."""
    conn.execute("select gapless.create_topic('mails', 20)")
    join(conn, block=4, group="sender", topic="mails")
    conn.execute("load 'auto_explain'")
    conn.execute(
        "select set_config('auto_explain.' || name, value, false) from (values ('log_min_duration', '0'),"
        " ('log_analyze', 'on'), ('log_nested_statements', 'on'), ('log_level', 'notice')) v (name, value)"
    )
    plans: list[str] = []
    conn.add_notice_handler(lambda told: plans.append(told.message_primary or ""))
    assert len(conn.execute(query(stage, name)).fetchall()) == 20
    scans = re.findall(
        r"Function Scan on pg_(?:stat_get_activity|lock_status) .* loops=(\d+)", "".join(plans)
    )
    assert len(scans) >= 2
    assert set(scans) == {"1"}
