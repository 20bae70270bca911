"""Tables of Delta and Iceberg as targets: each event has its effect once, wherever a run is cut off."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from gapless import failpoints
from gapless.errors import GaplessError, UsageError
from gapless.features.spark.pipeline.delta import has_batch
from gapless.features.spark.pipeline.position import (
    next_batch,
    register_pipeline,
    require_target,
)
from gapless.log.sequence import sequence
from gapless.log.topics import Topic, ensure_topic, set_partitions
from support.lakes import LakeWorld, newest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_postgresql")

POINTS = ("staged", "written", "looked", "applied", "done")
KINDS = [("delta", "upsert"), ("iceberg", "upsert"), ("iceberg", "append")]


@pytest.fixture
def make(
    conn: Connection, dsn: str, topic: Topic, tmp_path: Path
) -> Callable[[tuple[str, str]], LakeWorld]:
    def one(form: tuple[str, str]) -> LakeWorld:
        pytest.importorskip("deltalake" if form[0] == "delta" else "pyiceberg")
        return LakeWorld(conn, dsn, tmp_path, *form)

    return one


@pytest.fixture(params=KINDS, ids=" ".join)
def lake(request: pytest.FixtureRequest, make: Callable[..., LakeWorld]) -> LakeWorld:
    return make(request.param)


@pytest.fixture(params=KINDS[:2], ids=" ".join)
def upsert(request: pytest.FixtureRequest, make: Callable[..., LakeWorld]) -> LakeWorld:
    return make(request.param)


def _history(seed: int, events: int) -> list[tuple[str, object]]:
    """Return payloads of few keys; one in five deletes its key."""
    drawn = random.Random(seed)
    return [
        (f"k{drawn.randrange(6)}", None if drawn.randrange(5) == 0 else n) for n in range(events)
    ]


def _wanted(lake: LakeWorld, values: list[tuple[str, object]]) -> list[tuple[str, object]]:
    return newest(values) if lake.is_upsert else sorted(values, key=str)


@pytest.mark.long
def test_cut_off_anywhere_every_event_counts_once(lake: LakeWorld) -> None:
    values = _history(1, 160)
    lake.publish(*values)
    for point in POINTS:
        for nth in (1, 2):
            failpoints.arm({f"pipeline.{point}": f"raise@{nth}"})
            lake.batch_events = 5 + 3 * nth  # another range, unless the one is recorded
            with pytest.raises(RuntimeError, match=point):
                lake.run()
    failpoints.arm({})
    lake.run()
    assert lake.seen() == _wanted(lake, values)
    lake.publish(("k1", 100), ("k2", None))
    assert lake.run() == 1
    assert lake.seen() == _wanted(lake, [*values, ("k1", 100), ("k2", None)])


def test_a_batch_under_way_has_no_event_of_a_partition_that_came_later(
    lake: LakeWorld, conn: Connection
) -> None:
    """Its recorded end does not name them: they are of the next batch, and once in the table."""
    lake.publish(("a", 1), ("b", 2))
    failpoints.arm({"pipeline.written": "raise"})
    with pytest.raises(RuntimeError, match="written"):
        lake.run()
    failpoints.arm({})
    ensure_topic(conn, "outbox", partitions=4)
    set_partitions(conn, "outbox", 8)
    values = [(f"k{n}", n) for n in range(40)]
    lake.publish(*values)
    sequence(conn)
    ends = conn.execute("select max(partition_id) from gapless.ends(array['outbox'])").fetchone()
    assert ends == (7,)
    lake.batch_events = 1000
    lake.run()
    assert lake.seen() == _wanted(lake, [("a", 1), ("b", 2), *values])


def test_a_batch_under_way_is_finished_with_its_topics(lake: LakeWorld, conn: Connection) -> None:
    """Else the position in a topic that was left would stay, and its events come again."""
    lake.publish(("a", 1))
    failpoints.arm({"pipeline.written": "raise"})
    with pytest.raises(RuntimeError, match="written"):
        lake.run()
    failpoints.arm({})
    ensure_topic(conn, "other", partitions=1)
    left = replace(lake.pipeline(), topics=("other",))
    register_pipeline(conn, left)
    with pytest.raises(UsageError, match="with events of outbox: run it with --once as it was"):
        next_batch(conn, left)
    lake.run()
    assert lake.seen() == [("a", 1)]


@pytest.mark.long
def test_ranges_in_any_order_and_twice(upsert: LakeWorld, conn: Connection) -> None:
    """No row goes back, whatever came before; and in order, all is right whatever came before."""
    values = _history(3, 60)
    upsert.publish(*values)
    sequence(conn)
    pieces = _pieces(conn)
    drawn = [*pieces, *pieces[::2]]
    random.Random(4).shuffle(drawn)
    before: dict[str, int] = {}
    for piece in drawn:
        upsert.write_range(*piece)
        rows = {row["key"]: row["offset"] for row in upsert.content()}
        assert all(rows[key] >= before[key] for key in rows.keys() & before.keys())
        before = rows
    for piece in pieces:
        upsert.write_range(*piece)
    assert upsert.seen() == newest(values)
    before_again = sorted(upsert.content(), key=str)
    last = {piece[0]: piece for piece in pieces}
    for piece in last.values():
        upsert.write_range(*piece)
    assert sorted(upsert.content(), key=str) == before_again, "a range that came twice"


def _pieces(conn: Connection) -> list[tuple[int, int, int]]:
    """Return ranges of offsets, in order, that make up the partitions of the log."""
    ends = conn.execute(
        "select partition_id, next_offset from gapless.ends(array['outbox'])"
    ).fetchall()
    cuts = {partition: sorted({1, after, *range(4, after, 5)}) for partition, after in ends}
    return [(p, first, after) for p, found in cuts.items() for first, after in pairwise(found)]


def test_a_newest_row_is_chosen_by_offset_not_by_place(upsert: LakeWorld) -> None:
    """The rows of a batch come in any order: from several tasks."""
    values = _history(5, 30)
    upsert.publish(*values)
    upsert.batch_events = 1000
    upsert.run(lambda rows: rows.take(list(reversed(range(rows.num_rows)))))
    assert upsert.seen() == newest(values)


@pytest.mark.long
def test_two_that_commit_a_batch_at_once(lake: LakeWorld) -> None:
    """A run that was stopped before its commit, and goes on when another has done it."""
    values = [(f"k{n}", n) for n in range(9)]
    lake.publish(*values)
    lake.batch_events = 1000

    def other(_: str) -> None:
        failpoints.arm({"pipeline.applied": "raise"})
        with pytest.raises(RuntimeError):
            lake.run()
        failpoints.arm({})

    failpoints.arm({"pipeline.looked": other})
    if lake.kind == "delta":
        with pytest.raises(GaplessError, match=r"Delta table .*[Cc]oncurrent"):
            lake.run()
    lake.run()
    assert lake.seen() == _wanted(lake, values)


@pytest.mark.long
def test_rows_of_another_writer_stay(lake: LakeWorld) -> None:
    """Its commit between the look and ours: Iceberg looks again; Delta refuses, and the next run does."""
    lake.publish(("a", 1))
    lake.run()
    lake.publish(("b", 2))
    extra = next(iter(lake.content())) | {"key": "z", "value": "26", "offset": 10**6}

    def other(_: str) -> None:
        failpoints.arm({})
        lake.append_by_hand(extra)

    failpoints.arm({"pipeline.looked": other})
    if lake.kind == "delta":
        with pytest.raises(GaplessError, match=r"Delta table .*[Cc]oncurrent"):
            lake.run()
    lake.run()
    assert lake.seen() == [("a", 1), ("b", 2), ("z", 26)]


@pytest.mark.long
def test_a_database_that_was_put_back(lake: LakeWorld, conn: Connection) -> None:
    lake.publish(("a", 1))
    lake.run()
    conn.execute("update gapless.pipeline set batch = 0")
    lake.publish(("a", 2))
    with pytest.raises(GaplessError, match="was the database restored"):
        lake.run()
    assert lake.seen() == [("a", 1)]


def test_a_table_that_is_ahead_of_a_batch_under_way_has_it(tmp_path: Path) -> None:
    """Of a run that was paused, or a database that was put back: the table's number never goes back."""
    delta = pytest.importorskip("deltalake")
    numbered = [delta.Transaction("app", 7)]
    rows = pa.Table.from_pylist([{"key": "a"}])
    delta.write_deltalake(
        tmp_path, rows, commit_properties=delta.CommitProperties(app_transactions=numbered)
    )
    table = delta.DeltaTable(tmp_path)
    assert [has_batch(table, "app", number) for number in (6, 7, 8)] == [True, True, False]
    assert not has_batch(table, "another", 0)


@pytest.mark.long
def test_columns_are_added_if_the_target_says_so(lake: LakeWorld) -> None:
    lake.publish(("a", 1), ("b", 2))
    lake.run()
    lake.publish(("b", 3), ("c", 4))
    more = pa.scalar("new")

    def wider(rows: Any) -> Any:
        return rows.append_column("more", pa.array([more.as_py()] * rows.num_rows))

    with pytest.raises(UsageError, match=r"no column 'more' \(string\), but .*addColumns: true"):
        lake.run(wider)
    lake.run(wider, addColumns=True)
    found = {(row["key"], row["value"]): row["more"] for row in lake.content()}
    assert found[("c", "4")] == found[("b", "3")] == "new"
    assert found[("a", "1")] is None
    lake.publish(("d", 5))
    lake.run(lambda rows: rows.drop_columns(["timestamp"]))
    assert {row["key"]: row["timestamp"] for row in lake.content()}["d"] is None


@pytest.mark.long
def test_a_key_of_two_columns_and_deletes_by_a_column(upsert: LakeWorld) -> None:
    upsert.publish(*((f"k{n}", n) for n in range(6)))
    sign = {"key": ["key", "more"], "delete": "gone"}

    def keyed(rows: Any, *, gone: bool = False) -> Any:
        more = pa.array([len(key) for key in rows["key"].to_pylist()])
        return rows.append_column("more", more).append_column(
            "gone", pa.array([gone and key == "k3" for key in rows["key"].to_pylist()])
        )

    upsert.run(keyed, **sign)
    upsert.publish(("k3", 30), ("k4", 40), ("k10", 10))
    upsert.run(lambda rows: keyed(rows, gone=True), **sign)
    assert {(row["key"], row["more"]) for row in upsert.content()} == {
        *((f"k{n}", 2) for n in (0, 1, 2, 4, 5)),
        ("k10", 3),
    }
    assert "gone" not in upsert.content()[0]


def _without(name: str) -> Callable[[Any], Any]:
    return lambda rows: rows.drop_columns([name])


def _with(name: str, value: object) -> Callable[[Any], Any]:
    def changed(rows: Any) -> Any:
        column = pa.array([value] * rows.num_rows)
        at = rows.column_names.index(name) if name in rows.column_names else rows.num_columns
        return (
            rows.set_column(at, name, column)
            if at < rows.num_columns
            else rows.append_column(name, column)
        )

    return changed


WRONG: dict[str, tuple[Callable[[Any], Any], dict[str, object], str]] = {
    "no offset": (_without("offset"), {}, "needs the column 'offset'"),
    "no key": (_without("key"), {}, "needs the column 'key'"),
    "null keys": (_with("key", None), {}, r"3 of 3 rows have no key.*where key is not null"),
    "no deletes": (_without("value"), {}, "cannot tell deletes"),
    "a delete that is text": (_with("gone", "x"), {"delete": "gone"}, "is string, not boolean"),
    "no such delete": (lambda rows: rows, {"delete": "gone"}, "needs the column 'gone'"),
    "no such part": (lambda rows: rows, {"partitionBy": "day"}, "partitionBy: there is no column"),
}


@pytest.mark.long
@pytest.mark.parametrize("case", WRONG)
def test_rows_that_cannot_be_merged(upsert: LakeWorld, conn: Connection, case: str) -> None:
    """One sentence; nothing is written, and nothing stands in the way of a run that is right."""
    transform, more, says = WRONG[case]
    upsert.publish(("a", 1), ("b", 2), ("c", 3))
    with pytest.raises(UsageError, match=says) as refused:
        upsert.run(transform, **more)
    assert "\n" not in str(refused.value)
    assert upsert.content() == []
    assert conn.execute("select planned, files from gapless.pipeline").fetchall() == [(None, None)]
    upsert.run()
    assert upsert.seen() == [("a", 1), ("b", 2), ("c", 3)]


@pytest.mark.long
def test_a_table_that_differs(lake: LakeWorld) -> None:
    lake.publish(("a", 1))
    lake.run()
    lake.publish(("a", 2))
    before = lake.content()
    for transform, more, says in (
        (
            _with("timestamp", "noon"),
            {},
            "column 'timestamp' is timestamp.* in the table, but string",
        ),
        (_with("timestamp", "noon"), {"addColumns": True}, "cast it in the transform"),
        (lambda rows: rows, {"partitionBy": "key"}, "partitioned by nothing, not by key"),
    ):
        with pytest.raises(UsageError, match=says) as refused:
            lake.run(transform, **more)
        assert "\n" not in str(refused.value)
    assert lake.content() == before


@pytest.mark.long
def test_a_key_that_has_moved_to_another_partition(upsert: LakeWorld) -> None:
    """Offsets of two partitions have no order: the time of publishing decides, or a refusal."""
    upsert.publish(("a", 1), ("a", 2))
    upsert.batch_events = 1000

    def moved(rows: Any) -> Any:
        return rows.set_column(
            rows.column_names.index("partition"), "partition", pa.array([7, 2], pa.int32())
        )

    with pytest.raises(UsageError, match="events in several partitions"):
        upsert.run(lambda rows: moved(rows).drop_columns(["timestamp"]))
    upsert.run(moved)
    assert upsert.seen() == [("a", 2)]


@pytest.mark.long
def test_another_mode_half_way(upsert: LakeWorld, conn: Connection) -> None:
    upsert.publish(("a", 1))
    failpoints.arm({"pipeline.written": "raise"})
    with pytest.raises(RuntimeError):
        upsert.run()
    failpoints.arm({})
    pipeline = upsert.pipeline()
    appended = replace(pipeline, target=replace(pipeline.target, is_upsert=False))
    with pytest.raises(UsageError, match=f"on their way into {upsert.kind} upsert"):
        require_target(conn, appended)
    require_target(conn, pipeline)
    upsert.run()
    assert upsert.seen() == [("a", 1)]


@pytest.mark.parametrize("upsert", KINDS[:1], indirect=True, ids=" ".join)
def test_a_folder_that_holds_something_else(upsert: LakeWorld, tmp_path: Path) -> None:
    upsert.publish(("a", 1))
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"no Delta table, but holds 'notes.txt'"):
        upsert.run()
    assert [path.name for path in (tmp_path / "lake").iterdir()] == ["notes.txt"]


@pytest.mark.long
@pytest.mark.parametrize("upsert", KINDS[1:2], indirect=True, ids=" ".join)
def test_a_catalog_that_is_not_known(upsert: LakeWorld) -> None:
    upsert.publish(("a", 1))
    with pytest.raises(UsageError, match=r"catalog 'nowhere' is not known.*NOWHERE__URI"):
        upsert.run(catalog="nowhere")
    with pytest.raises(UsageError, match=r"env:NO_URI: the variable NO_URI is not set"):
        upsert.run(catalog={"uri": "env:NO_URI"})


@pytest.mark.long
@pytest.mark.parametrize("upsert", KINDS[:1], indirect=True, ids=" ".join)
def test_a_delta_table_that_only_grows(upsert: LakeWorld) -> None:
    upsert.publish(("a", 1))
    upsert.run()
    from deltalake import DeltaTable

    table = DeltaTable(str(upsert.folder / "lake"))
    table.alter.set_table_properties({"delta.appendOnly": "true"})
    upsert.publish(("a", 2))
    with pytest.raises(UsageError, match="may only be appended"):
        upsert.run()
    assert upsert.seen() == [("a", 1)]
