"""Tables as targets: how columns are merged, and exactly once into another database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from gapless import failpoints
from gapless.db.connect import connect
from gapless.errors import GaplessError, UsageError
from gapless.features.spark.ops import remove_pipeline
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.elsewhere import OtherTable
from gapless.features.spark.pipeline.position import MicroBatch, next_batch, register_pipeline
from gapless.features.spark.pipeline.rows import ROLE, stage_part
from gapless.features.spark.pipeline.spec import read_target
from gapless.features.spark.pipeline.table import Table, drop_stage
from gapless.features.spark.pipeline.target import require_target_package
from gapless.features.spark.reach import reached
from gapless.log.publish import publish
from gapless.log.topics import Topic
from support.pipelines import pipeline
from support.servers import until

pa = pytest.importorskip("pyarrow")

MERGES = {
    "table": "totals",
    "key": "key",
    "add": "n",
    "min": ["low", "first"],
    "max": "high",
    "avg": {"mean": ["total", "n"]},
}
COLUMNS = "key text primary key, n bigint, total bigint, low int, first text, high int, mean float8"


def _pipeline(**target: object) -> Pipeline:
    return pipeline(columns=("key", "value"), target=read_target("to", target))


def _row(key: str, *numbers: int | None) -> dict[str, Any]:
    """Return what a transform gives for a key whose events have such numbers."""
    there = [number for number in numbers if number is not None]
    return {
        "key": key,
        "n": len(there),
        "total": sum(there),
        "low": min(there, default=None),
        "high": max(there, default=None),
        "first": min(map(str, there), default=None),
    }


def _merge(conn: Connection, rows: list[dict[str, Any]], batch: MicroBatch) -> None:
    where = reached(conn)
    table = Table(_pipeline(**MERGES), where)
    table.prepare(conn, list(rows[0]))
    staged = stage_part(where, table.stage, 0, pa.Table.from_pylist(rows).to_batches())
    table.finish(conn, batch, list(rows[0]), [staged])


def test_columns_are_merged_as_if_all_rows_came_at_once(conn: Connection, topic: Topic) -> None:
    conn.execute(f"create table totals ({COLUMNS})")
    register_pipeline(conn, _pipeline(**MERGES))
    batches = [
        {"a": (3, 8), "b": (None,)},
        {"a": (1, 1), "b": (-2, 5), "c": (7,)},
        {"a": (10,), "b": (None, None), "c": (None,)},
    ]
    for batch in batches:
        publish(conn, "outbox", 1)
        rows = [_row(key, *numbers) for key, numbers in batch.items()]
        _merge(conn, rows, next_batch(conn, _pipeline(**MERGES)))
    for key in "abc":
        wanted = _row(key, *(n for batch in batches for n in batch.get(key, ())))
        (found,) = conn.execute(
            "select to_jsonb(t) - 'mean' from totals t where key = %s", [key]
        ).fetchone() or (None,)
        assert found == wanted
        ((mean,),) = conn.execute("select mean from totals where key = %s", [key]).fetchall()
        assert mean == pytest.approx(wanted["total"] / wanted["n"])


def test_a_deferred_constraint_refuses_rows_before_the_commit(
    conn: Connection, topic: Topic
) -> None:
    """So parts of a batch can be tried for it, and its bad events are found."""
    conn.execute("create table seen (n bigint unique deferrable initially deferred)")
    where = reached(conn)
    table = Table(_pipeline(table="seen"), where)
    table.prepare(conn, ["n"])
    rows = pa.Table.from_pylist([{"n": 1}, {"n": 1}])
    staged = stage_part(where, table.stage, 0, rows.to_batches())
    with (
        pytest.raises(UsageError, match="table seen: duplicate key"),
        conn.transaction(force_rollback=True),
    ):
        table.merge(conn, ["n"], [staged])


@pytest.mark.parametrize("then", ["next run", "removal"])
def test_tasks_of_a_run_that_is_paused_hold_nobody(
    conn: Connection, dsn: str, topic: Topic, then: str
) -> None:
    """Their kernel answers for them: without an end of its session, a COPY keeps its lock for ever."""
    conn.execute("create table seen (n bigint)")
    table = Table(_pipeline(table="seen"), reached(conn))
    table.prepare(conn, ["n"])
    copy_in = sql.SQL("copy {} from stdin (format csv)").format(table.stage)
    conn.execute("set statement_timeout = '20s'")
    with (
        pytest.raises(psycopg.OperationalError) as ended,
        connect(dsn, role=ROLE) as task,
        task.cursor().copy(copy_in) as copy,
    ):
        copy.write(b",1\n" * 100_000)
        if then == "removal":
            assert drop_stage(conn, table.stage) is None
        else:
            table.prepare(conn, ["n"])
    assert not isinstance(ended.value, psycopg.errors.QueryCanceled)


def test_a_column_of_a_mean_is_not_the_transforms(conn: Connection, topic: Topic) -> None:
    table = Table(_pipeline(**MERGES), reached(conn))
    with pytest.raises(UsageError, match="gives the column 'mean', which avg makes"):
        table.prepare(conn, [*_row("a"), "mean"])
    with pytest.raises(UsageError, match=r"gives no column 'low', which .*min"):
        table.prepare(conn, ["key", "n", "total"])


@pytest.fixture
def other(conn: Connection, dsn: str, topic: Topic) -> Iterator[Connection]:
    """A session in another database, which has the table `totals`."""
    name = sql.Identifier(f"{conn.info.dbname}_other")
    conn.execute(sql.SQL("create database {}").format(name))
    there = make_conninfo("", **{**conninfo_to_dict(dsn), "dbname": f"{conn.info.dbname}_other"})
    with closing(connect(there, role="test")) as session:
        session.execute("create table totals (key text primary key, n bigint)")
        yield session
    conn.execute(sql.SQL("drop database {} with (force)").format(name))


@pytest.fixture
def elsewhere(conn: Connection, other: Connection, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A pipeline into that table, registered, with 12 events to read, in batches of 5."""
    monkeypatch.setenv("REPORTS", other.info.dsn)
    pipeline = _pipeline(table="totals", key="key", add="n", url="env:REPORTS")
    for n in range(12):
        publish(conn, "outbox", {"n": n}, key=str(n))
    register_pipeline(conn, pipeline)
    return pipeline


def _run(conn: Connection, pipeline: Pipeline) -> None:
    assert pipeline.target.url is not None
    target = OtherTable(pipeline, pipeline.target.url)
    while (batch := next_batch(conn, pipeline)).events:
        counted = pa.Table.from_pylist([{"key": "all", "n": batch.events}])

        def stage(there: Connection, table: Table, rows: Any = counted) -> Any:
            table.prepare(there, rows.column_names)
            return rows.column_names, [
                stage_part(reached(there), table.stage, 0, rows.to_batches())
            ]

        target.take(conn, batch, stage)


def _counted(other: Connection) -> int:
    ((n,),) = other.execute("select coalesce(sum(n), 0) from totals").fetchall()
    return int(n)


def test_another_database_cut_off_anywhere(
    conn: Connection, other: Connection, elsewhere: Pipeline
) -> None:
    """The longer range that the next run would take is not the one that is in the table."""
    points = ("written", "looked", "applied", "done")
    for number, point in enumerate(points):
        failpoints.arm({f"pipeline.{point}": "raise"})
        with pytest.raises(RuntimeError, match=point):
            _run(conn, replace(elsewhere, batch_events=4 + number % 2))
        publish(conn, "outbox", {"n": number})
        assert _counted(other) <= 12 + number
    failpoints.arm({})
    _run(conn, elsewhere)
    assert _counted(other) == 12 + len(points)
    assert other.execute("select count(*) from gapless_position").fetchone() == (1,)


def test_two_pipelines_whose_first_batch_comes_at_once(
    conn: Connection, other: Connection, elsewhere: Pipeline
) -> None:
    """Both make the table of places: the second waits for the first, and takes it as it is."""
    made = threading.Event()

    def first() -> None:
        waits = (
            "select count(*) from pg_stat_activity"
            " where wait_event = 'transactionid' and datname = current_database()"
        )
        with connect(other.info.dsn, role="test") as another, another.transaction():
            another.execute(
                "create table gapless_position (pipeline text primary key, batch int8, place json)"
            )
            made.set()
            assert until(lambda: other.execute(waits).fetchone() == (1,))

    with ThreadPoolExecutor(1) as pool:
        another = pool.submit(first)
        assert made.wait(30)
        _run(conn, elsewhere)
        another.result()
    assert _counted(other) == 12


@pytest.mark.long
def test_two_that_write_a_batch_at_once(
    conn: Connection, other: Connection, elsewhere: Pipeline, dsn: str
) -> None:
    """A run that was stopped before its rows, and goes on when another has written them."""

    def faster(_: str) -> None:
        failpoints.arm({})
        with closing(connect(dsn, role="test")) as again:
            _run(again, elsewhere)

    failpoints.arm({"pipeline.written": faster})
    with pytest.raises(GaplessError, match="has moved on meanwhile"):
        _run(conn, elsewhere)
    _run(conn, elsewhere)
    assert _counted(other) == 12


def test_a_database_that_was_put_back(
    conn: Connection, other: Connection, elsewhere: Pipeline
) -> None:
    _run(conn, elsewhere)
    conn.execute("update gapless.pipeline set batch = 0")
    publish(conn, "outbox", 1)
    with pytest.raises(GaplessError, match="was the database restored"):
        _run(conn, elsewhere)
    assert _counted(other) == 12


def test_a_removed_pipeline_leaves_no_stage(
    conn: Connection, other: Connection, elsewhere: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    failpoints.arm({"pipeline.written": "raise"})
    with pytest.raises(RuntimeError):
        _run(conn, elsewhere)
    failpoints.arm({})
    count = "select count(*) from pg_tables where tablename like 'gapless\\_stage\\_%'"
    assert other.execute(count).fetchone() == (1,)
    assert remove_pipeline(conn, "p").left_over is None
    assert other.execute(count).fetchone() == (0,)
    register_pipeline(conn, elsewhere)
    monkeypatch.delenv("REPORTS")
    assert "at env:REPORTS" in (remove_pipeline(conn, "p").left_over or "")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("env:REPORTS", "the variable REPORTS is not set"),
        ("file:/nowhere/dsn", "No such file"),
        ("env:", "the variable  is not set"),
    ],
)
def test_a_secret_that_is_missing(url: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        require_target_package(_pipeline(table="totals", url=url))
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_secret_in_a_file(tmp_path: Any) -> None:
    (tmp_path / "dsn").write_text("postgresql://me@host/db\n")
    require_target_package(_pipeline(table="totals", url=f"file:{tmp_path}/dsn"))


@pytest.mark.long
def test_a_table_that_is_not_there(
    conn: Connection, other: Connection, elsewhere: Pipeline
) -> None:
    other.execute("drop table totals")
    with pytest.raises(UsageError, match="table totals does not exist: create it first"):
        _run(conn, elsewhere)
