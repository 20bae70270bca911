"""Publishing what tasks staged: once, whole, in order, whatever is tried again. No Spark needed."""

import multiprocessing
import signal
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection

from gapless import failpoints
from gapless.errors import PublishError, UsageError
from gapless.features.spark import sink
from gapless.features.spark.events import check_columns
from gapless.features.spark.sink import Staged, drop_stages, publish_staged, stage
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic

pa = pytest.importorskip("pyarrow")

NASTY = ['a"b', "", None, "line\nbreak", "\\.", "x,y", "ünï", "\\N", "\t"]


def _batch(first: int, count: int, **columns: list[Any]) -> Any:
    rows: dict[str, list[Any]] = {
        "value": [f'{{"n": {n}}}' for n in range(first, first + count)],
        "event_type": [str(n) for n in range(first, first + count)],
        **columns,
    }
    return pa.RecordBatch.from_pydict({k: pa.array(v, pa.string()) for k, v in rows.items()})


def test_a_job_leaves_no_stage_behind(
    dsn: str, conn: Connection, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of tasks whose job failed, which the driver never heard of, nor of what was not published."""
    monkeypatch.setattr(sink, "INLINE_BYTES", 10)
    others = stage(dsn, "outbox", 0, [_batch(0, 5)])
    for then in (0, 1):
        with pytest.raises(ZeroDivisionError), sink.staging(conn) as job:
            staged = [stage(dsn, "outbox", part, [_batch(0, 5)], job=job) for part in range(3)]
            assert _stages(conn) == 4
            with conn.transaction(force_rollback=True):
                sink.publish_messages(conn, staged[:then])
            raise ZeroDivisionError
        assert _stages(conn) == 1
    assert publish_staged(dsn, "write w", 0, [others])
    assert _tags(conn) == list(range(5))


def _tags(conn: Connection) -> list[int]:
    rows = conn.execute("select event_type from gapless.outbox_message_t order by id").fetchall()
    return [int(tag) for (tag,) in rows]


def _stages(conn: Connection) -> int:
    row = conn.execute(
        "select count(*) from pg_tables where schemaname = 'gapless' and tablename like 'stage\\_%'"
    ).fetchone()
    assert row is not None
    return int(row[0])


PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
FORMS = {
    "pairs": (PAIRS, [[("a", b"1"), ("b", None)], None], [{"a": "1", "b": None}, None], ""),
    "bytes": (pa.binary(), [b'{"a": "1"}', None], [{"a": "1"}, None], ""),
    "twice": (PAIRS, [[("a", b"1"), ("a", b"2")]], [], "'a' cannot be, or is there twice"),
    "no name": (PAIRS, [[(None, b"1")]], [], "None cannot be"),
    "no text": (PAIRS, [[("a", b"\xff")]], [], "'a' is no UTF-8"),
    "no bytes of text": (pa.binary(), [b"\xff"], [], "column headers"),
}


@pytest.mark.parametrize("form", FORMS)
def test_headers_are_taken_in_each_form_that_a_read_gives(
    dsn: str, conn: Connection, topic: Topic, form: str
) -> None:
    kind, given, stored, says = FORMS[form]
    batch = pa.RecordBatch.from_pydict(
        {"value": ["1"] * len(given), "headers": pa.array(given, kind)}
    )
    if says:
        with pytest.raises(PublishError, match=says) as refused:
            stage(dsn, "outbox", 0, [batch])
        assert "\n" not in str(refused.value)
        return
    publish_staged(dsn, "write w", 0, [stage(dsn, "outbox", 0, [batch])])
    rows = conn.execute("select headers from gapless.outbox_message_t order by id").fetchall()
    assert [headers for (headers,) in rows] == stored


@pytest.mark.parametrize("inline_bytes", [0, 1 << 20], ids=["staged", "inline"])
def test_a_batch_is_published_once_and_in_order(
    dsn: str, conn: Connection, topic: Topic, inline_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink, "INLINE_BYTES", inline_bytes)
    messages = [
        stage(dsn, "outbox", part, [_batch(part * 100, 50), _batch(part * 100 + 50, 50)])
        for part in (2, 0, 1)
    ]
    assert _stages(conn) == (0 if inline_bytes else 3)
    assert publish_staged(dsn, "query q", 7, messages)
    assert _tags(conn) == list(range(300))
    again = [stage(dsn, "outbox", 0, [_batch(0, 300)])]
    assert not publish_staged(dsn, "query q", 7, again)
    assert not publish_staged(dsn, "query q", 3, again[:0])
    assert publish_staged(dsn, "query q", 8, [stage(dsn, "outbox", 0, [_batch(300, 1)])])
    assert _tags(conn) == list(range(301))
    units = conn.execute("select count(distinct transaction_id) from gapless.outbox_message_t")
    assert units.fetchone() == (301,)
    assert _stages(conn) == 0
    assert sequence(conn) == 301


def test_every_field_arrives_as_it_was(dsn: str, conn: Connection, topic: Topic) -> None:
    unit = str(uuid4())
    count = len(NASTY)
    batch = _batch(
        0,
        count,
        key=NASTY,
        host_id=NASTY,
        user_id=NASTY[::-1],
        transaction_id=[unit, None] * 4 + [unit],
    )
    publish_staged(dsn, "w", 0, [stage(dsn, "outbox", 0, [batch])])
    rows = conn.execute(
        "select key, host_id, user_id, transaction_id::text, payload::text"
        " from gapless.outbox_message_t order by id"
    ).fetchall()
    assert [row[0] for row in rows] == NASTY
    assert [row[1] for row in rows] == NASTY
    assert [row[2] for row in rows] == NASTY[::-1]
    assert [row[3] == unit for row in rows] == [True, False] * 4 + [True]
    assert len({row[3] for row in rows}) == 1 + 4, "an event without one is a unit of its own"
    assert rows[3][4] == '{"n": 3}'


def test_rows_choose_their_topic(dsn: str, conn: Connection, topic: Topic) -> None:
    other = ensure_topic(conn, "other", partitions=1)
    batch = _batch(0, 3, topic=["other", "outbox", "other"])
    publish_staged(dsn, "w", 0, [stage(dsn, None, 0, [batch])])
    rows = conn.execute("select topic_id from gapless.outbox_message_t order by id").fetchall()
    assert rows == [(other.topic_id,), (1,), (other.topic_id,)]


def test_what_cannot_be_stored_is_one_sentence(dsn: str, conn: Connection, topic: Topic) -> None:
    with pytest.raises(PublishError, match='"nowhere" does not exist'):
        stage(dsn, "nowhere", 0, [_batch(0, 1)])
    bad = _batch(0, 2, value=["{}", "{oops"])
    message = stage(dsn, "outbox", 0, [bad])
    with pytest.raises(PublishError, match="cannot be published"):
        publish_staged(dsn, "w", 0, [message])
    assert _tags(conn) == []
    good = stage(dsn, "outbox", 0, [_batch(0, 2)])
    assert publish_staged(dsn, "w", 0, [good]), "a batch that failed is not fenced"
    with pytest.raises(UsageError, match="value is needed"):
        check_columns(["key"], topic="t")
    with pytest.raises(UsageError, match="no column 'amount'"):
        check_columns(["value", "amount"], topic="t")
    with pytest.raises(UsageError, match="which topic"):
        check_columns(["value"], topic=None)


def test_a_stage_that_lost_rows_is_refused(
    dsn: str, conn: Connection, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of the server empties unlogged tables."""
    monkeypatch.setattr(sink, "INLINE_BYTES", 0)
    message = stage(dsn, "outbox", 0, [_batch(0, 10)])
    assert message.token is not None
    conn.execute(f"truncate gapless.stage_{message.token.hex}".encode())
    with pytest.raises(Exception, match="has 0 events instead of 10"):
        publish_staged(dsn, "w", 0, [message])
    assert conn.execute("select count(*) from gapless.sink_batch").fetchone() == (0,)


def _publish_and_die(dsn: str, point: str, messages: list[Staged]) -> None:
    failpoints.arm({point: "kill"})
    publish_staged(dsn, "query q", 1, messages)


@pytest.mark.parametrize("point", ["sink.published", "sink.committed"])
def test_a_driver_that_dies_and_begins_again(
    dsn: str, conn: Connection, topic: Topic, point: str
) -> None:
    messages = [stage(dsn, "outbox", 0, [_batch(0, 100)])]
    context = multiprocessing.get_context("fork")
    driver = context.Process(target=_publish_and_die, args=(dsn, point, messages))
    driver.start()
    driver.join()
    assert driver.exitcode == -signal.SIGKILL
    other_plan = [stage(dsn, "outbox", part, [_batch(part * 25, 25)]) for part in range(4)]
    is_new = publish_staged(dsn, "query q", 1, other_plan)
    assert is_new is (point == "sink.published")
    assert _tags(conn) == list(range(100))


def _stage_and_die(dsn: str) -> None:
    failpoints.arm({"sink.staged": "kill"})
    sink.INLINE_BYTES = 0
    stage(dsn, "outbox", 0, [_batch(0, 100)])


def test_a_task_that_dies_when_it_has_staged(dsn: str, conn: Connection, topic: Topic) -> None:
    """Its stage is nobody's: the next attempt has one of its own, and only that is published."""
    task = multiprocessing.get_context("fork").Process(target=_stage_and_die, args=(dsn,))
    task.start()
    task.join()
    assert task.exitcode == -signal.SIGKILL
    assert _stages(conn) == 1
    assert publish_staged(dsn, "query q", 1, [stage(dsn, "outbox", 0, [_batch(0, 100)])])
    assert _tags(conn) == list(range(100))
    conn.execute("update gapless.stage set created_ts = created_ts - interval '2 days'")
    drop_stages(dsn, [])
    assert _stages(conn) == 0
