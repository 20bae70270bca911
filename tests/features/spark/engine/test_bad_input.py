"""What people get wrong: one sentence from the driver, and nothing changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo

from gapless.errors import GaplessError
from gapless.features.spark.pipeline.document import load_pipelines
from gapless.features.spark.pipeline.run import run_pipeline
from gapless.features.spark.session import sentence
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import Topic, ensure_topic
from support.long import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROLE = "gapless_nobody"
TO_TABLE = "to: {table: totals, key: key}"
WRONG = {
    "module": ("transform: nowhere:f\n    " + TO_TABLE, "cannot be had"),
    "function": ("transform: pipeline_transforms:nothing\n    " + TO_TABLE, "cannot be had"),
    "reference": ("transform: pipeline_transforms\n    " + TO_TABLE, "module:function"),
    "result": ("transform: pipeline_transforms:a_number\n    " + TO_TABLE, "returned int"),
    "raises": ("transform: pipeline_transforms:fails\n    " + TO_TABLE, "not today"),
    "in a task": ("transform: pipeline_transforms:fails_later\n    " + TO_TABLE, "not in a task"),
    "syntax": ("sql: selct key from events\n    " + TO_TABLE, "[Ss]yntax"),
    "column": ("sql: select nokey from events\n    " + TO_TABLE, "nokey"),
    "key": ("sql: select value from events\n    " + TO_TABLE, "no column 'key'"),
    "other columns": ("sql: select key, 1 as wrong from events\n    " + TO_TABLE, "wrong"),
    "types": (
        "sql: select distinct key, key as n from events\n    " + TO_TABLE,
        "table totals.*bigint",
    ),
    "twice": ("sql: select key, 1 as n from events\n    " + TO_TABLE, "a key twice"),
    "no key": (
        "sql: select distinct null as key, 1 as n from events\n    to: {table: loose, key: key}",
        "loose: of 1 rows key is null.*a check can keep",
    ),
    "check": ("check: key <> 'k'\n    " + TO_TABLE, "check does not hold: key <> 'k', for 4 of"),
    "check's syntax": ("check: key is is\n    " + TO_TABLE, "[Ss]yntax"),
    "check's column": ("check: nokey > 1\n    " + TO_TABLE, "nokey"),
    "value": ("sql: select key from events\n    to: {topic: again}", "column value is needed"),
    "topic": ("sql: select key, value from events\n    to: {topic: nowhere}", "does not exist"),
    "json": ("sql: select key, 'x' as value from events\n    to: {topic: again}", "json"),
    "folder": ("sql: select key from events\n    to: {parquet: /proc/nothing}", "/proc/nothing"),
}


@pytest.fixture
def few(conn: Connection, topic: Topic) -> None:
    conn.execute("create table totals (key text primary key, n bigint)")
    conn.execute("create table loose (key text unique, n bigint)")
    ensure_topic(conn, "again", partitions=2)
    publish(conn, "outbox", [NewEvent(payload={"n": n}, key="k") for n in range(4)])


@pytest.mark.long
@pytest.mark.parametrize("case", long_but(WRONG, "raises", "json"))
def test_a_pipeline_that_is_wrong(
    spark: SparkSession, few: None, conn: Connection, dsn: str, tmp_path: Path, case: str
) -> None:
    said = _refusal(dsn, tmp_path, WRONG[case][0], WRONG[case][1])
    assert "\n" not in said
    assert "Traceback" not in said
    assert "Py4J" not in said
    assert conn.execute("select count(*) from totals").fetchone() == (0,)
    moved = conn.execute(
        "select count(*) from gapless.consumer_offsets where next_offset > 1"
    ).fetchone()
    assert moved == (0,)


@pytest.mark.long
def test_a_role_without_rights(
    spark: SparkSession, few: None, conn: Connection, dsn: str, tmp_path: Path
) -> None:
    conn.execute(sql.SQL("drop role if exists {0}").format(sql.Identifier(ROLE)))
    conn.execute(sql.SQL("create role {0} login").format(sql.Identifier(ROLE)))
    theirs = make_conninfo(dsn, user=ROLE)
    sql_text = "sql: select key, count(*) n from events group by key\n    " + TO_TABLE
    try:
        _refusal(theirs, tmp_path, sql_text, "permission denied|may not")
        with pytest.raises(Exception, match="gapless") as refused:
            spark.read.format("gapless").options(url=theirs, subscribe="outbox").load()
        assert "\n" not in sentence(refused.value)
    finally:
        conn.execute(sql.SQL("drop owned by {0}").format(sql.Identifier(ROLE)))
        conn.execute(sql.SQL("drop role {0}").format(sql.Identifier(ROLE)))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "which topics"),
        ({"subscribe": "outbox", "topic": "outbox"}, "one of them"),
        ({"subscribe": "outbox", "startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"subscribe": "outbox", "startingOffsets": '{"other": {"0": 1}}'}, "is not among"),
        ({"subscribe": "outbox", "startingOffsets": '{"outbox": {"9": 1}}'}, "partition 9"),
        ({"subscribe": "outbox", "endingOffsets": '{"outbox": {"0": 99}}'}, "beyond the end"),
        ({"subscribe": "outbox", "startingOffsets": "group:none"}, "there is no group"),
        ({"subscribe": "outbox", "startingTimestamp": "yesterday"}, "milliseconds"),
        ({"assign": "[1"}, "assign is not"),
        ({"subscribe": "outbox", "archive": "/nowhere", "startingOffsets": "oops"}, "earliest"),
    ],
)
def test_a_read_that_is_wrong(
    spark: SparkSession, few: None, dsn: str, options: dict[str, str], says: str
) -> None:
    with pytest.raises(Exception, match="gapless") as refused:
        spark.read.format("gapless").options(url=dsn, **options).load().count()
    assert says in sentence(refused.value)


def _refusal(dsn: str, folder: Path, rest: str, says: str) -> str:
    """Return the sentence that running a pipeline ends with."""
    file = folder / "pipelines.yml"
    file.write_text(f"pipelines:\n  wrong:\n    from: outbox\n    {rest}\n")
    with pytest.raises(GaplessError, match=says) as refused:
        pipeline = load_pipelines(file)["wrong"]
        run_pipeline(pipeline, dsn, master="local[2]", tell=lambda _: None)
    return str(refused.value)
