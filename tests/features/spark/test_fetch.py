"""Reading ranges as Arrow: every column exact, in order, and complete or refused."""

import json
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from gapless.errors import GaplessError, HoleError, UsageError
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic
from support.servers import until

pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_postgresql")

from gapless.features.spark import bulk, fetch, tries
from gapless.features.spark.columns import COLUMNS
from gapless.features.spark.fetch import read_ranges
from gapless.features.spark.options import read_options
from gapless.features.spark.segments import ReadRequest
from gapless.features.spark.source import look, plan_batch, read_task
from gapless.features.spark.stream import StreamReader

PAYLOADS: list[Any] = [{"n": 1}, None, "ünï\u0000", [1, 2], "x" * 10_000, {"deep": {"er": "✈"}}]


@pytest.fixture(params=["one stretch", "by id", "row by row"])
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to fetch events, few at a time; and a server that sends each alone."""
    monkeypatch.setattr(fetch, "DENSE", 2 if request.param == "by id" else 0)
    monkeypatch.setattr(fetch, "CHUNK_EVENTS_MAX", 90)
    monkeypatch.setattr(fetch, "QUERY_EVENTS_MAX", 40)
    if request.param == "row by row":
        monkeypatch.setattr(bulk, "BATCH_BYTES", 1)


def _read(dsn: str, **given: str) -> list[dict[str, Any]]:
    options = read_options({"url": dsn, "subscribe": "outbox", **given})
    wanted = ReadRequest(
        dsn=dsn,
        columns=options.columns,
        event_types=options.event_types,
        where=options.where,
        params=options.params,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    return [
        row
        for task in plan_batch(options, look(options)).tasks
        for batch in read_ranges(wanted, task)
        for row in batch.to_pylist()
    ]


def _truth(conn: Connection) -> list[tuple[Any, ...]]:
    return conn.execute(
        "select r.key, r.payload::text, 'outbox', p, r.c_offset, r.created_ts, r.headers::text,"
        " r.transaction_id::text, r.event_type, r.host_id, r.user_id"
        " from generate_series(0, 3) p, gapless.read('outbox', p) r"
    ).fetchall()


def _publish(dsn: str, count: int) -> None:
    with psycopg.connect(dsn) as one, psycopg.connect(dsn) as two:
        for n in range(count):
            conn = (one, two)[n % 3 % 2]  # ids of a partition do not ascend
            event = NewEvent(
                payload=PAYLOADS[n % len(PAYLOADS)],
                key=None if n % 5 == 0 else f"key {n}",
                event_type=f"type {n % 3}",
                headers={"n": n} if n % 2 else None,
                host_id=f"host {n}",
                user_id=None,
                transaction_id="3b241101-e2bb-4255-8caf-4136c566a962" if n % 7 == 0 else None,
            )
            publish(conn, "outbox", event)
            if n % 11 == 0:
                one.commit()


@pytest.mark.long
@pytest.mark.usefixtures("road")
def test_every_column_of_every_event(dsn: str, conn: Connection, topic: Topic) -> None:
    _publish(dsn, 500)
    sequence(conn)
    conn.execute("update gapless.log_segment set timeline = 258 where partition_id = 3")
    rows = _read(dsn, recordsPerTask="37")
    assert {tuple(row.values()) for row in rows} == set(_truth(conn))
    assert len(rows) == 500
    assert list(rows[0]) == list(COLUMNS)


@pytest.mark.long
@pytest.mark.usefixtures("road")
def test_offsets_ascend_within_a_task_and_from_task_to_task(
    dsn: str, conn: Connection, topic: Topic
) -> None:
    _publish(dsn, 300)
    seen: dict[int, int] = {}
    for row in _read(dsn, columns="partition,offset", recordsPerTask="110"):
        assert row["offset"] == seen.get(row["partition"], 0) + 1
        seen[row["partition"]] = row["offset"]


@pytest.mark.long
@pytest.mark.usefixtures("road")
def test_only_those_for_which_where_holds_and_those_that_cannot_be_asked(
    dsn: str, conn: Connection, topic: Topic
) -> None:
    _publish(dsn, 120)
    sequence(conn)
    asked = {"where": '$.n == $n || $ == "none"', "params": '{"n": 1}'}
    rows = _read(dsn, columns="value", **asked)
    odd = json.dumps(PAYLOADS[2], ensure_ascii=False)
    values = [row["value"] for row in rows]
    assert sorted(set(values)) == sorted({'{"n":1}', odd}), set(values)
    assert len(values) == 40
    both = _read(dsn, columns="value,event_type", eventTypes="type 0", **asked)
    assert {row["event_type"] for row in both} == {"type 0"}
    assert {row["value"] for row in both} == {'{"n":1}'}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"where": "$.n >"}, "no jsonpath"),
        ({"where": "$.n > $min"}, "no value for \\$min"),
        ({"where": "$.n > $min", "params": "{oops"}, "params is not JSON"),
        ({"where": "$.n > $min", "params": "[1]"}, "an object"),
        ({"params": '{"min": 1}'}, "there is none"),
        ({"where": "$.n > 1", "archive": "/data"}, "an archive is files"),
    ],
)
def test_where_is_refused_at_load_in_one_line(
    dsn: str, topic: Topic, given: dict[str, str], says: str
) -> None:
    with pytest.raises(GaplessError, match=says) as refused:
        look(read_options({"url": dsn, "subscribe": "outbox", **given}))
    assert "\n" not in str(refused.value)


@pytest.mark.few(3)
@pytest.mark.usefixtures("road")
@pytest.mark.parametrize("event_types", [{}, {"eventTypes": "type 1"}, {"where": "$.n == 1"}])
@pytest.mark.parametrize("lost", ["event", "segment"])
def test_a_hole_is_found(
    dsn: str, conn: Connection, topic: Topic, lost: str, event_types: dict[str, str]
) -> None:
    for _ in range(3):  # the middle one of three segments is lost
        _publish(dsn, 70)
        sequence(conn)
    if lost == "event":
        conn.execute("delete from gapless.outbox_message_t where id = 77")
    else:
        conn.execute(
            "delete from gapless.log_segment where ctid = (select ctid from gapless.log_segment"
            " where base_offset > 1 order by run, partition_id limit 1)"
        )
    with pytest.raises(HoleError, match="missing from"):
        _read(dsn, **event_types)
    left = _read(dsn, failOnDataLoss="false")
    assert 0 < len(left) < 210


@pytest.mark.long
@pytest.mark.usefixtures("road")
def test_events_of_other_topics_between_are_left_out(
    dsn: str, conn: Connection, topic: Topic
) -> None:
    ensure_topic(conn, "other", partitions=2)
    for n in range(150):
        publish(conn, ("outbox", "other", "other")[n % 3], {"n": n}, key=str(n))
    assert {row["topic"] for row in _read(dsn)} == {"outbox"}
    assert len(_read(dsn)) == 50
    assert len(_read(dsn, eventTypes="none of these")) == 0


@pytest.mark.long
def test_large_events_come_a_few_at_a_time(dsn: str, conn: Connection, topic: Topic) -> None:
    large = "ü" * (5 << 20)
    publish(conn, "outbox", [NewEvent(payload=large, key=str(n)) for n in range(12)])
    options = read_options({"url": dsn, "subscribe": "outbox"})
    wanted = ReadRequest(dsn=dsn, columns=("value", "offset"))
    batches = [
        batch
        for task in plan_batch(options, look(options)).tasks
        for batch in read_ranges(wanted, task)
    ]
    assert max(batch.nbytes for batch in batches) < 3 * bulk.BATCH_BYTES
    values = [value for batch in batches for value in batch["value"].to_pylist()]
    assert values == [f'"{large}"'] * 12


@pytest.mark.long
def test_one_that_stops_early_leaves_no_query(dsn: str, conn: Connection, topic: Topic) -> None:
    publish(conn, "outbox", [NewEvent(payload="x" * (1 << 20)) for _ in range(40)])
    options = read_options({"url": dsn, "subscribe": "outbox"})
    (task,) = plan_batch(options, look(options)).tasks
    batches = read_ranges(ReadRequest(dsn=dsn, columns=("value",)), task)
    assert next(iter(batches)).num_rows < 40
    batches.close()
    assert until(lambda: not _task_sessions(conn))
    assert len(_read(dsn)) == 40


@pytest.mark.long
@pytest.mark.parametrize("pauses", [(), (0.1, 0.3)], ids=["never again", "again"])
def test_a_session_that_is_cut_in_the_middle(
    dsn: str,
    conn: Connection,
    topic: Topic,
    monkeypatch: pytest.MonkeyPatch,
    pauses: tuple[float, ...],
) -> None:
    """It is an error, unless the read may be done again: then the rest is read, each event once."""
    monkeypatch.setattr(tries, "PAUSES_S", pauses)
    publish(conn, "outbox", [NewEvent(payload="x" * (1 << 20)) for _ in range(60)])
    options = read_options({"url": dsn, "subscribe": "outbox"})
    (task,) = plan_batch(options, look(options)).tasks
    batches = read_ranges(ReadRequest(dsn=dsn, columns=("partition", "offset", "value")), task)
    found = next(iter(batches)).to_pylist()
    for pid in _task_sessions(conn):
        conn.execute("select pg_terminate_backend(%s)", (pid,))
    if not pauses:
        with pytest.raises(GaplessError, match="the database refused a read"):
            list(batches)
        assert len(_read(dsn)) == 60
        return
    found += [row for batch in batches for row in batch.to_pylist()]
    assert len(found) == len({(row["partition"], row["offset"]) for row in found}) == 60


def _task_sessions(conn: Connection) -> list[int]:
    rows = conn.execute(
        "select pid from pg_stat_activity where application_name = 'gapless/spark task'"
        " and datname = current_database()"
    ).fetchall()
    return [pid for (pid,) in rows]


@pytest.mark.parametrize("road", ["batch", "stream", "before 4.2"])
def test_events_of_before_an_upgrade_may_be_of_a_later_timeline(
    dsn: str, conn: Connection, topic: Topic, road: str
) -> None:
    """A failover begins another one, and pg_upgrade begins anew at 1: that has lost nothing."""
    for _ in range(3):
        _publish(dsn, 20)
        sequence(conn)
    middle = "(select percentile_disc(0.5) within group (order by run) from gapless.log_segment)"
    conn.execute(f"update gapless.log_segment set timeline = 3 where run = {middle}")
    if road == "batch":
        assert len(_read(dsn)) == 60
        return
    given = {"url": dsn, "subscribe": "outbox", "startingOffsets": "earliest"}
    options = read_options({**given, "maxOffsetsPerTrigger": "20"})
    with closing(StreamReader(options)) as reader:
        done, timelines, found = reader.first(), [], 0
        for _ in range(4):
            end = reader.next(done, limited=True) if road == "stream" else reader.all()
            for task in reader.tasks(done, end):
                found += sum(each.num_rows for each in read_task(options, task, reader.where()))
            timelines.append(end[""]["timeline"])
            done = end
        assert reader.next(done, limited=True) == reader.all() == done
    assert (found, set(timelines)) == (60, {1, 3} if road == "stream" else {3})


@pytest.mark.long
def test_sequencing_is_done_by_the_reader(dsn: str, conn: Connection, topic: Topic) -> None:
    publish(conn, "outbox", {}, key="a")
    assert len(_read(dsn)) == 1
    assert sequence(conn) == 0


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("start", "end", "says"),
    [
        ("latest", "earliest", "latest to endingOffsets earliest is the wrong way round"),
        ("latest", '{"outbox": {"0": 1}}', "outbox/0 is .*, and endingOffsets is 1: the wrong"),
        ('{"outbox": {"0": 3}}', '{"outbox": {"0": 2}}', "outbox/0 is 3, and endingOffsets is 2"),
        ('{"outbox": {"0": -1}}', "earliest", "outbox/0 is .*, and endingOffsets is 1"),
    ],
)
def test_a_range_the_wrong_way_round_is_refused(
    dsn: str, conn: Connection, topic: Topic, start: str, end: str, says: str
) -> None:
    _publish(dsn, 50)
    with pytest.raises(UsageError, match=says) as refused:
        _read(dsn, startingOffsets=start, endingOffsets=end)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("place", ["latest", "earliest"])
def test_an_empty_range_is_no_mistake(dsn: str, conn: Connection, topic: Topic, place: str) -> None:
    _publish(dsn, 50)
    assert _read(dsn, startingOffsets=place, endingOffsets=place) == []
    early = {"startingTimestamp": "2020-01-01", "endingTimestamp": "2019-01-01"}
    with pytest.raises(UsageError, match="startingTimestamp is later than endingTimestamp"):
        _read(dsn, **early)
