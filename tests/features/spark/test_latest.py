"""The newest event of each key of a compacted topic, then the log: nothing lost, nothing twice."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import Any

import pytest
from psycopg import Connection

from gapless.errors import GaplessError, UsageError
from gapless.features.compaction.latest import set_compaction
from gapless.features.retention.chunks import (
    HistoryRetention,
    Retention,
    apply_retention,
    set_retention,
)
from gapless.log.sequence import sequence
from gapless.log.topics import ensure_topic, set_partitions
from support.chunks import next_chunk, small_chunks

pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_postgresql")

from gapless.features.spark import bulk, latest
from gapless.features.spark.options import read_options
from gapless.features.spark.source import look, plan_batch, read_task
from gapless.features.spark.stream import StreamReader

Row = tuple[str, Any, int, int]  # key, value, partition, offset
PUT = """
insert into gapless.outbox_message_t (topic_id, key, payload)
values (gapless.topic_id('prices'), %s, %s::json)
"""
END_TASKS = """
select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'gapless/spark task'
and datname = current_database()
"""
ENDED = "compaction of topic prices was switched off, or began anew"


KEYS = [f"key {n}" for n in range(40)]


class Log:
    """A compacted topic; each event's value is its number in the order of publishing, or null."""

    def __init__(self, conn: Connection[Any], partitions: int = 2) -> None:
        small_chunks(conn)
        ensure_topic(conn, "prices", partitions=partitions)
        set_compaction(conn, "prices", compact=True)
        self.conn = conn
        self.newest: dict[str, int | None] = {}
        self._count = 0

    def put(self, *keys: str, gone: bool = False) -> None:
        for key in keys:
            self._count += 1
            self.newest[key] = None if gone else self._count
            self.conn.execute(PUT, [key, None if gone else str(self._count)])
        sequence(self.conn)

    def compact(self, *, steps: int = 1000, events_max: int = 1000) -> None:
        for _ in range(steps):
            if not self.conn.execute("select gapless.compact(%s)", [events_max]).fetchone()[0]:  # type: ignore[index]
                return

    def drop(self) -> list[str]:
        """Let retention drop the events that are published and taken in."""
        next_chunk(self.conn)
        set_retention(self.conn, "prices", Retention(keep_s=0.000_001))
        for _ in range(50):  # some runs later the chunk is complete
            self.put("other")
            self.compact()
            if gone := apply_retention(self.conn, HistoryRetention(letters_s=60, audit_s=60)):
                return gone
        return []

    def move(self, random: Random) -> None:
        """Publish a few events, and take in some."""
        for _ in range(random.randint(0, 3)):
            keys = random.choices(KEYS[:12], k=random.randint(1, 4))
            self.put(*keys, gone=random.random() < 0.2)
        if random.random() < 0.7:
            self.compact(steps=random.randint(1, 4), events_max=random.choice([1, 3, 100]))

    @property
    def fold(self) -> dict[str, int]:
        return {key: n for key, n in self.newest.items() if n is not None}


class Query:
    """A streaming query as Spark runs it: its checkpoint, and a sink that keeps a row for each key."""

    def __init__(self, **given: str) -> None:
        self._given = {"subscribe": "prices", "startingOffsets": "latest-per-key", **given}
        self.ends: list[Any] = []  # of the batches that were planned
        self.done = 0  # batches
        self.batches: list[list[Row]] = []
        self._reader = self._open()

    def _open(self) -> StreamReader:
        self.options = read_options(self._given)
        return StreamReader(self.options)

    def kill(self) -> None:
        """End the driver; another one goes on with the checkpoint."""
        self._reader.close()
        bulk.close()
        self._reader = self._open()

    def plan(self) -> bool:
        """Write the end of the next batch into the checkpoint, unless it is there, or none is due."""
        if len(self.ends) > self.done:
            return True
        start = self._start()
        end = self._reader.next(start, limited=True)
        if self.ends and json.dumps(end) == json.dumps(start):
            return False
        self.ends.append(json.loads(json.dumps(end)))
        return True

    def read(self) -> list[Row]:
        """Read the planned batch."""
        tasks = self._reader.tasks(self._start(), self.ends[self.done])
        where = self._reader.where()
        return [row for task in tasks for row in rows(read_task(self.options, task, where))]

    def commit(self, batch: list[Row]) -> None:
        self.batches.append(batch)
        self.done += 1

    def drain(self) -> None:
        while self.plan():
            self.commit(self.read())

    def close(self) -> None:
        self._reader.close()

    def _start(self) -> Any:
        return self.ends[self.done - 1] if self.done else self._reader.first()

    @property
    def table(self) -> dict[str, int]:
        """The rows of a keyed sink: in a batch the newest one of a key counts, else the later batch."""
        found: dict[str, int] = {}
        for batch in self.batches:
            for key, value, *_ in batch:
                if value is None:
                    found.pop(key, None)
                else:
                    found[key] = value
        return found

    def require_order(self) -> None:
        """No event comes twice, and none of a key after a newer one."""
        every = [row for batch in self.batches for row in batch]
        assert max(Counter(row[2:] for row in every).values()) == 1
        seen: dict[str, int] = {}
        for key, value, *_ in every:
            if value is not None:
                assert value > seen.get(key, 0), key
                seen[key] = value


def rows(batches: Iterator[Any]) -> list[Row]:
    found = [row for batch in batches for row in batch.to_pylist()]
    return [
        (
            row["key"],
            None if row["value"] in (None, "null") else int(row["value"]),
            row["partition"],
            row["offset"],
        )
        for row in found
    ]


@pytest.fixture
def log(conn: Connection) -> Log:
    return Log(conn)


@pytest.fixture
def query(log: Log) -> Iterator[Query]:
    made = Query(url=log.conn.info.dsn)
    yield made
    made.close()


def test_the_first_batch_is_the_newest_of_each_key_though_the_log_has_dropped_them(
    log: Log, query: Query
) -> None:
    log.put(*KEYS, *KEYS)
    log.put(*KEYS[:5], gone=True)
    log.compact()
    assert log.drop()
    fold = log.fold
    log.put(*KEYS[3:8])
    assert query.plan()
    first = query.read()
    assert dict(row[:2] for row in first) == fold
    query.commit(first)
    query.drain()
    assert [row[0] for batch in query.batches[1:] for row in batch if row[0]] == KEYS[3:8]
    assert query.table == log.fold
    query.kill()
    log.put(*KEYS[10:12])
    query.drain()
    assert [row[0] for row in query.batches[-1]] == KEYS[10:12], "it does not begin again"
    query.require_order()


def test_rows_of_the_table_have_the_form_of_the_logs(log: Log) -> None:
    """All columns, also the transaction's id; and the filters of a read."""
    for n in range(30):
        log.conn.execute(
            "insert into gapless.outbox_message_t"
            " (topic_id, key, host_id, user_id, payload, headers, event_type, transaction_id)"
            " values (gapless.topic_id('prices'), %s, 'h', 'u', %s, '{\"a\": 1}', %s, %s)",
            [
                str(n), json.dumps({"n": n}), f"t{n % 2}",
                f"{n:08}-0000-8000-8000-000000000001" if n % 3 else None,
            ],
        )  # fmt: skip
    sequence(log.conn)
    given = {"url": log.conn.info.dsn, "subscribe": "prices", "recordsPerTask": "7"}
    before = _read(**given)
    log.compact()
    kept = {**given, "startingOffsets": "latest-per-key"}
    assert _read(**kept) == before
    for some in (
        {"eventTypes": "t1"},
        {"where": "$.n > $x", "params": '{"x": 20}'},
        {"partitions": "1"},
        {"columns": "offset,partition,transaction_id"},
        {"keyFormat": "binary", "includeHeaders": "true"},
    ):
        assert _read(**kept, **some) == _read(**given, **some) != before


def _read(**given: str) -> list[dict[str, Any]]:
    options = read_options(given)
    plan = plan_batch(options, look(options))
    batches = [batch for task in plan.tasks for batch in read_task(options, task, plan.reached)]
    assert len({batch.schema for batch in batches}) == 1
    found = [row for batch in batches for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


@pytest.mark.parametrize("seed", range(4))
def test_history_of_kills_retention_and_new_partitions(log: Log, seed: int) -> None:
    """Events are published, compacted and dropped between each two steps of a query."""
    random = Random(seed)
    query = Query(
        url=log.conn.info.dsn, maxOffsetsPerTrigger=str(random.choice([3, 50])), recordsPerTask="4"
    )
    lost = 0
    log.put(*KEYS[:12], *KEYS[:6])
    log.compact()
    assert log.drop()
    for turn in range(30):
        log.move(random)
        if turn == 15:
            set_partitions(log.conn, "prices", random.choice([1, 4]))
        if not query.plan():
            continue
        log.move(random)
        if random.random() < 0.3:
            query.kill()
            lost += 1
        batch = query.read()
        log.move(random)
        if random.random() < 0.3:
            query.kill()
            lost += 1
            continue  # the batch is run again
        query.commit(batch)
    query.drain()
    query.close()
    assert lost
    assert query.table == log.fold
    query.require_order()


@pytest.mark.parametrize("change", ["replaced", "deleted", "moved"])
def test_a_batch_has_every_key_though_rows_change_after_load(log: Log, change: str) -> None:
    log.put(*KEYS)
    log.compact()
    log.put(*KEYS[:4])  # not taken in at load()
    options = read_options(
        {"url": log.conn.info.dsn, "subscribe": "prices", "startingOffsets": "latest-per-key"}
    )
    loaded, fold = look(options), log.fold
    if change == "moved":
        set_partitions(log.conn, "prices", 7)
    log.put(*KEYS[2:9], gone=change == "deleted")
    log.compact()
    plan = plan_batch(options, loaded)
    found = [row for task in plan.tasks for row in rows(read_task(options, task, plan.reached))]
    assert max(Counter(row[2:] for row in found).values()) == 1
    newest: dict[str, int] = {}
    for key, value, *_ in found:
        newest[key] = max(value or 0, newest.get(key, 0))
    for key, n in fold.items():
        if log.newest[key] is None:
            assert newest.get(key) in (None, n), "a deleted key is as at load(), or gone"
        else:
            assert n <= newest[key] <= log.fold[key], key


def test_a_spark_that_tells_no_beginning_reads_both_in_the_first_batch(log: Log) -> None:
    """Before PySpark 4.2 the end of each batch is that of the log; a driver begins anew in between."""
    log.put(*KEYS)
    log.compact()
    log.put(*KEYS[:3])
    given = {"url": log.conn.info.dsn, "subscribe": "prices", "startingOffsets": "latest-per-key"}
    options = read_options({**given, "groupId": "lab"})
    with closing(StreamReader(options)) as reader:
        end = reader.all()
    log.put(*KEYS[2:6])
    log.compact()
    found: list[Row] = []
    with closing(StreamReader(options)) as reader:
        first = reader.first()
        reader.show(reader.begun(first, end))
        position = (
            "select sum(next_offset - 1) from gapless.consumer_offsets where group_id = 'lab'"
        )
        assert log.conn.execute(position).fetchone() == (len(KEYS),), "retention waits for the rest"
        for start, upto in ((first, end), (end, reader.all())):
            tasks, where = reader.tasks(start, upto), reader.where()
            found += [row for task in tasks for row in rows(read_task(options, task, where))]
    assert {key: value for key, value, *_ in found} == log.fold
    assert max(Counter(row[2:] for row in found).values()) == 1


def test_available_now_ends_where_it_said_though_the_compaction_runs_ahead(log: Log) -> None:
    log.put(*KEYS)
    query = Query(url=log.conn.info.dsn)
    query._reader.stop_here()
    log.put(*KEYS[:5])
    log.compact()
    query.drain()
    assert dict(row[:2] for batch in query.batches for row in batch).keys() == set(KEYS[5:])
    query.kill()
    query.drain()
    assert query.table == log.fold
    query.require_order()
    query.close()


@pytest.mark.parametrize("anew", [False, True], ids=["off", "anew"])
def test_a_compaction_that_ends_meanwhile_is_named(log: Log, query: Query, anew: bool) -> None:
    log.put(*KEYS)
    log.compact()
    query.plan()
    set_compaction(log.conn, "prices", compact=False)
    if anew:
        log.compact()
        set_compaction(log.conn, "prices", compact=True)
        log.compact()
    with pytest.raises(GaplessError, match=ENDED):
        query.read()


def test_beginnings_that_cannot_be(log: Log) -> None:
    ensure_topic(log.conn, "orders", partitions=1)
    url = log.conn.info.dsn
    with closing(StreamReader(Query(url=url, subscribe="orders,prices").options)) as reader:
        with pytest.raises(UsageError, match="topic orders is not compacted: gapless topics alter"):
            reader.first()
    for given, said in {
        ("startingTimestamp", "2026-01-01"): "give startingTimestamp or startingOffsets, not both",
        ("endingOffsets", "latest"): "reads up to the end of the log: leave endingOffsets out",
    }.items():
        with pytest.raises(UsageError, match=said):
            Query(url=url, **dict([given]))
    with pytest.raises(UsageError, match="latest-per-key is a beginning"):
        read_options({"url": url, "subscribe": "prices", "endingOffsets": "latest-per-key"})


@pytest.mark.parametrize("rows_max", [latest.QUERY_ROWS_MAX, 500, 100])
def test_large_tables_are_read_in_even_parts_each_key_once(
    log: Log, monkeypatch: pytest.MonkeyPatch, rows_max: int
) -> None:
    monkeypatch.setattr(latest, "QUERY_ROWS_MAX", rows_max)
    log.conn.execute(
        "insert into gapless.outbox_message_t (topic_id, key, payload)"
        " select gapless.topic_id('prices'), n, to_json(n) from generate_series(1, 5000) n"
    )
    sequence(log.conn)
    log.compact()
    given = {"subscribe": "prices", "startingOffsets": "latest-per-key", "recordsPerTask": "500"}
    options = read_options({"url": log.conn.info.dsn, **given})
    plan = plan_batch(options, look(options))
    parts = [rows(read_task(options, task, plan.reached)) for task in plan.tasks]
    assert len(parts) == 10
    assert max(len(part) for part in parts) < 650
    assert sorted(value for part in parts for _, value, *_ in part) == list(range(1, 5001))


def test_a_read_that_is_cut_goes_on_behind_the_last_row(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "BATCH_BYTES", 1 << 16)
    log.conn.execute(
        "insert into gapless.outbox_message_t (topic_id, key, payload)"
        " select gapless.topic_id('prices'), n, to_json(repeat('x', 4000)) from generate_series(1, 4000) n"
    )
    sequence(log.conn)
    log.compact()
    options = read_options(
        {"url": log.conn.info.dsn, "subscribe": "prices", "startingOffsets": "latest-per-key"}
    )
    plan = plan_batch(options, look(options))
    found: list[str] = []
    for batch in read_task(options, plan.tasks[0], plan.reached):
        if not found:
            gone = log.conn.execute(END_TASKS).fetchall()
            assert gone == [(True,)]
        found += batch["key"].to_pylist()
    assert sorted(found, key=int) == [str(n) for n in range(1, 4001)]
