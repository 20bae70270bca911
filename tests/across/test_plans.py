"""No statement of the log ever reads a chunk or the segments from end to end.

Counted by the server (pg_stat_xact), not timed: on empty tables, on tables that were bulk-loaded and
never analysed, and on large analysed ones; on the first call of a connection and on the tenth, when
PL/pgSQL and prepared statements have long switched to generic plans.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from psycopg import Connection

from gapless.consume.aside.record import set_aside
from gapless.consume.read.backlog import Backlog
from gapless.consume.read.claim import Wanted
from gapless.consume.unit import Span
from gapless.consume.user.handler import handler
from gapless.consume.verdict.failure import Failure
from gapless.consume.verdict.policy import Verdict
from gapless.db.connect import connect
from gapless.db.queries import query
from gapless.features.compaction.latest import set_compaction
from gapless.log.publish import publish
from gapless.log.read import fetch
from gapless.log.sequence import configure_chunks, create_chunks, sequence
from gapless.log.topics import Topic, ensure_topic
from support.group import Owner, owner
from support.plans import cost
from support.servers import DatabaseLike
from support.turn import turn

BULK = 30_000  # events, in two chunks
CALLS = 10
STATES = ["empty", "never analysed", "analysed"]

spread = pytest.mark.parametrize("spread", [False, True], ids=["neighbours", "far apart"])


@dataclass
class Place:
    """A log in one of the STATES, and a group that has read nothing of it."""

    conn: Connection
    group: Owner
    events: int

    def newest(self, count: int) -> list[int]:
        """The ids of the newest sequenced events of the first partition, in offset order."""
        rows = self.conn.execute(
            "select u.id from gapless.log_segment s, unnest(s.message_ids) u (id)"
            " where s.partition_id = 0 order by u.id desc limit %s",
            [count],
        ).fetchall()
        return [row[0] for row in reversed(rows)]


@pytest.fixture(scope="module", params=STATES)
def loaded(
    request: pytest.FixtureRequest, database_like: DatabaseLike, template: str
) -> Iterator[str]:
    """The name of a database in one of the STATES; tests have copies of it."""
    with database_like(template) as dsn:
        with connect(dsn, role="load") as conn:
            ensure_topic(conn, "outbox", partitions=4)
            if request.param != "empty":
                _load(conn)
                assert sequence(conn) == BULK
            if request.param == "analysed":
                conn.execute("vacuum analyze")
            name = conn.info.dbname
        yield name


@pytest.fixture
def place(loaded: str, database_like: DatabaseLike) -> Iterator[Place]:
    with database_like(loaded) as dsn, connect(dsn, role="test") as conn:
        topic = ensure_topic(conn, "outbox", partitions=4)
        row = conn.execute("select count(*) from gapless.outbox_message_t").fetchone()
        assert row is not None
        with owner(dsn, "g", topic) as group:
            yield Place(conn, group, row[0])


def _load(conn: Connection) -> None:
    for next_id in (1, 1_500_000):
        conn.execute("select setval('gapless.outbox_message_id_seq', %s)", [next_id])
        conn.execute(
            "insert into gapless.outbox_message_t (key, payload)"
            " select n::text, to_json(repeat('x', 100)) from generate_series(1, %s) n",
            [BULK // 2],
        )


def _check(
    place: Place, call: Callable[[Connection, int], object], *, looked_up_max: int | None = None
) -> None:
    """Run `call` CALLS times on a session of its own; no call may scan, or look up too much.

    A few look-ups more than rows: the planner itself looks for the largest value of an index.
    """
    with connect(place.conn.info.dsn, role="plans") as conn:
        for n in range(CALLS):
            with cost(conn) as spent:
                call(conn, n)
            assert not spent.scanned, f"call {n + 1}: {spent.scanned}"
            if looked_up_max is not None:
                assert spent.events_looked_up <= looked_up_max, f"call {n + 1}"


def _unit(place: Place, count: int, spread: bool) -> list[int]:
    """The ids of a unit; of a transaction that was open for long, they are far apart."""
    if not spread:
        return place.newest(count)
    ids = place.newest(place.events)
    return ids[:: len(ids) // count][:count] if ids else []


def _first_run(place: Place) -> None:
    """Run once with an event: only until then all is looked at (is_overlaid.sql)."""
    publish(place.conn, "outbox", [{"n": 0}])
    place.conn.execute("select gapless.sequence_events()")


def test_sequence_events(place: Place) -> None:
    _first_run(place)

    def run(conn: Connection, n: int) -> None:
        publish(place.conn, "outbox", [{"n": n}] * 3)
        row = conn.execute("select gapless.sequence_events()").fetchone()
        assert row == (1,)

    _check(place, run, looked_up_max=40)


def test_a_long_backlog_of_one_partition_is_no_longer_look_up(conn: Connection, dsn: str) -> None:
    """What a run inserts it does not pass again for each of its segments."""
    topic = ensure_topic(conn, "single", partitions=1)
    conn.execute(
        "insert into gapless.outbox_message_t (topic_id, key, payload)"
        " select %s, 'k', '1' from generate_series(1, 40000)",
        [topic.topic_id],
    )
    looked = "select pg_stat_get_xact_tuples_returned('gapless.log_segment_pkey'::regclass)"
    with conn.transaction():
        assert sequence(conn) == 40_000
        (entries,) = conn.execute(looked).fetchone() or (0,)
    assert conn.execute("select count(*) from gapless.log_segment").fetchone() == (200,)
    assert entries <= 10


def test_sequence_events_with_nothing_to_do(place: Place) -> None:
    """The first run may still move the floor: the planner looks at each chunk's end three times."""
    _first_run(place)
    _check(place, lambda conn, n: conn.execute("select gapless.sequence_events()"), looked_up_max=6)


@pytest.mark.few(3)
@pytest.mark.parametrize("events_max", [0, 1000], ids=["", "with its events"])
@pytest.mark.parametrize("batch_size", [1, 100, 5000])
def test_claim(place: Place, batch_size: int, events_max: int) -> None:
    """By a worker that has not begun, one in the middle, and one that is idle."""
    worker = place.group.conn
    partition = place.group.assignments[0].partition
    ends = "select end_offset from gapless.log_ends(%s, %s)"
    row = worker.execute(ends, [partition.topic_id, partition.partition_id]).fetchone()
    assert row is not None
    for start in (1, place.events // 8 + 1, row[0]):
        for n in range(CALLS):
            with worker.transaction(force_rollback=True):
                worker.execute("update gapless.consumer_offsets set next_offset = %s", [start])
                with cost(worker) as spent:
                    claimed = Backlog().ask(
                        worker, place.group.assignments[0], Wanted(batch_size, events_max)
                    )
            assert not spent.scanned, f"call {n + 1} at {start}: {spent.scanned}"
            assert spent.events_looked_up <= len(claimed.rows or ()) + 5


def test_a_claim_locks_few_of_many_chunks(conn: Connection, dsn: str, topic: Topic) -> None:
    """A plan that is kept locks them all, on each call."""
    configure_chunks(conn, chunk_events=10_000_000, chunks_ahead=64)
    while create_chunks(conn):
        pass
    publish(conn, "outbox", {}, key="a")
    sequence(conn)
    locked = (
        "select count(*) from pg_locks l join pg_inherits i on i.inhrelid = l.relation"
        " where l.pid = pg_backend_pid() and i.inhparent = 'gapless.outbox_message_t'::regclass"
    )
    with owner(dsn, "g", topic) as group:
        for _ in range(CALLS):
            for assignment in group.assignments:
                with group.conn.transaction(force_rollback=True):
                    Backlog().ask(group.conn, assignment, Wanted(1, 1))
                    (tables,) = group.conn.execute(locked).fetchone() or (0,)
                    assert tables <= 2


def test_a_step_of_compaction(place: Place) -> None:
    """Its bound counts events: segments are read for these, not as many as there are events."""
    set_compaction(place.conn, "outbox", compact=True)
    step = min(100, place.events)
    with connect(place.conn.info.dsn, role="plans") as conn:
        for n in range(CALLS):
            with cost(conn) as spent:
                assert conn.execute("select gapless.compact(100)").fetchone() == (step,)
            assert not spent.scanned, f"call {n + 1}: {spent.scanned}"
            assert spent.events_looked_up <= 2 * step + 5, "to find the newest, and to keep it"
            assert spent.tables["log_segment"].idx_tup_fetch <= 12


@spread
@pytest.mark.parametrize("is_prepared", [False, True])
def test_fetch(place: Place, spread: bool, is_prepared: bool) -> None:
    """A driver may prepare it: the generic plan is an index look-up too."""
    ids = _unit(place, 500, spread)

    def run(conn: Connection, n: int) -> None:
        wanted = {"low": min(ids, default=1), "high": max(ids, default=3), "ids": ids}
        if is_prepared:
            conn.execute(query("log", "fetch"), wanted, prepare=True).fetchall()
        elif ids:
            assert len(fetch(conn, ids)) == len(ids)

    _check(place, run, looked_up_max=len(ids) + 5)


def test_read(place: Place) -> None:
    first = place.events // 8 + 1

    def run(conn: Connection, n: int) -> None:
        conn.execute(
            "select * from gapless.read('outbox', 0, %s, %s)", [first, first + 99]
        ).fetchall()

    _check(place, run, looked_up_max=400)


def test_read_of_a_long_transactions_segment(place: Place) -> None:
    """Its first id is far below the last one: what lies between them is not read."""
    ids = place.newest(place.events)
    if not ids:
        return
    place.conn.execute(
        "update gapless.log_segment set message_ids[1] = %s"
        " where partition_id = 0 and base_offset ="
        " (select max(base_offset) from gapless.log_segment where partition_id = 0)",
        [ids[0]],
    )

    def run(conn: Connection, n: int) -> None:
        rows = conn.execute(
            "select c_offset from gapless.read('outbox', 0, %s)", [len(ids)]
        ).fetchall()
        assert rows == [(len(ids),)]

    _check(place, run, looked_up_max=200)


@spread
def test_dead_letter(place: Place, spread: bool) -> None:
    unit = _unit(place, 20, spread)
    assignment = place.group.assignments[0]
    if unit:
        _check(
            place,
            lambda conn, n: set_aside(
                turn(conn, assignment, handler(topic="orders")(lambda unit, conn: None)),
                Span(n * 20 + 1, unit),
                Failure(error="refused"),
                Verdict(state="dead"),
            ),
            looked_up_max=25,
        )


def _chain(place: Place, events: int) -> str:
    """Let `events` events of the log's be a chain: what came of one transaction."""
    root = "11111111-2222-3333-4444-555555555555"
    place.conn.execute(
        "insert into gapless.outbox_message_t (key, payload, cause, correlation)"
        " select 'k' || n, '1', 'g/outbox/0@1', %s::uuid from generate_series(1, %s) n",
        [root, events],
    )
    sequence(place.conn)
    return root


@pytest.mark.long
def test_trace(place: Place) -> None:
    root = _chain(place, 20)

    def run(conn: Connection, n: int) -> None:
        rows = conn.execute("select * from gapless.trace(%s)", [root]).fetchall()
        assert len(rows) == 4

    _check(place, run, looked_up_max=60)


@pytest.mark.long
def test_chain_state(place: Place) -> None:
    _chain(place, 20)
    told = publish(place.conn, "outbox", 1)
    sequence(place.conn)
    place.conn.execute("select gapless.create_group('idle', 'outbox')")
    place.conn.execute("select gapless.seek('idle', to_end => 'latest')")

    def run(conn: Connection, n: int) -> None:
        conn.execute(
            "select * from gapless.chain_state(array['idle', 'idle'], %s)", [told]
        ).fetchall()

    _check(place, run, looked_up_max=20)


def test_publish(place: Place) -> None:
    _check(place, lambda conn, n: publish(conn, "outbox", n), looked_up_max=0)


def test_the_counters_would_show_a_scan(place: Place) -> None:
    with cost(place.conn) as spent:
        place.conn.execute("set local enable_indexscan = off")
        place.conn.execute("set local enable_indexonlyscan = off")
        place.conn.execute("set local enable_bitmapscan = off")
        place.conn.execute("select * from gapless.outbox_message_t where id = 5").fetchall()
        place.conn.execute("select * from gapless.log_segment").fetchall()
    assert set(spent.scanned) == {"outbox_message_1", "log_segment"}
