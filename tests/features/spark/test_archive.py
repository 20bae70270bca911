"""A read that spans an archive and the live log is one; an archive that lost something is refused."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from gapless.errors import HoleError, UsageError
from gapless.features.retention.chunks import (
    HistoryRetention,
    Retention,
    apply_retention,
    set_retention,
)
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.chunks import next_chunk, small_chunks

pa = pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_postgresql")

from gapless.features.spark.options import read_options  # noqa: E402
from gapless.features.spark.source import look, plan_batch, read_task  # noqa: E402


def _batches(dsn: str, **given: str) -> list[Any]:
    options = read_options({"url": dsn, "subscribe": "outbox", "recordsPerTask": "17", **given})
    plan = plan_batch(options, look(options))
    return [batch for task in plan.tasks for batch in read_task(options, task, plan.reached)]


def _rows(batches: list[Any]) -> list[dict[str, Any]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


@pytest.fixture
def archived(dsn: str, conn: Connection, topic: Topic, tmp_path: Path) -> list[dict[str, Any]]:
    """The rows of a log whose beginning is in tmp_path / archive, and in the log no more."""
    import pyarrow.parquet as pq

    small_chunks(conn)
    for start in range(0, 200, 20):
        if start == 100:
            next_chunk(conn)
        events = [
            NewEvent(payload={"n": n}, key=str(n), event_type=f"t{n % 2}", headers={"n": n})
            for n in range(start, start + 20)
        ]
        publish(conn, "outbox", events)
        sequence(conn)
    before = _batches(dsn)
    folder = tmp_path / "archive" / "day=2026-01-01"
    folder.mkdir(parents=True)
    for number, batch in enumerate(before):
        pq.write_table(pa.Table.from_batches([batch]), folder / f"a-{number:05d}.parquet")
    set_retention(conn, "outbox", Retention(keep_s=0.000_001))
    assert len(apply_retention(conn, HistoryRetention(letters_s=60, audit_s=60))) == 1
    return _rows(before)


@pytest.mark.long
def test_archive_and_log_are_one(dsn: str, archived: list[dict[str, Any]], tmp_path: Path) -> None:
    live = _rows(_batches(dsn))
    assert (len(live), len(archived)) == (100, 200)
    with pytest.raises(HoleError, match="no longer in the log"):
        _batches(dsn, startingOffsets='{"outbox": {"0": 1}}')
    assert _rows(_batches(dsn, archive=str(tmp_path / "archive"))) == archived
    some = _rows(
        _batches(
            dsn,
            archive=str(tmp_path / "archive"),
            columns="partition,offset,value",
            eventTypes="t1",
        )
    )
    assert some == [
        {name: row[name] for name in ("partition", "offset", "value")}
        for row in archived
        if row["event_type"] == "t1"
    ]


def test_keys_and_headers_have_one_form_in_both(
    dsn: str, archived: list[dict[str, Any]], tmp_path: Path
) -> None:
    """As Kafka's source has them: bytes, and pairs of a name and bytes."""
    batches = _batches(
        dsn,
        archive=str(tmp_path / "archive"),
        keyFormat="binary",
        includeHeaders="true",
        columns="partition,offset,key,headers",
    )
    assert len({batch.schema for batch in batches}) == 1
    for row in _rows(batches):
        assert row["headers"] == [{"key": "n", "value": row["key"]}]


@pytest.mark.long
@pytest.mark.parametrize("damage", ["lost", "doubled"])
def test_an_archive_that_is_not_whole_is_refused(
    dsn: str, archived: list[dict[str, Any]], tmp_path: Path, damage: str
) -> None:
    first = min((tmp_path / "archive").rglob("*.parquet"))
    if damage == "lost":
        first.unlink()
    else:
        first.with_name("copy.parquet").write_bytes(first.read_bytes())
    with pytest.raises(HoleError, match="is not complete"):
        _batches(dsn, archive=str(tmp_path / "archive"))


def test_an_empty_folder_is_said_to_be_empty(
    dsn: str, archived: list[dict[str, Any]], tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UsageError, match="empty where Spark's tasks run: no pipeline") as refused:
        _batches(dsn, archive=str(empty))
    assert "\n" not in str(refused.value)
