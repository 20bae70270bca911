"""Tables of Delta and Iceberg as targets: each event has its effect once, wherever a run is cut off."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from gapless import failpoints
from gapless.errors import GaplessError, UsageError
from gapless.features.spark import bulk
from gapless.features.spark.pipeline.position import next_batch, register_pipeline, require_target
from gapless.log.sequence import sequence
from gapless.log.topics import Topic
from support.lakes import LakeWorld, newest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("adbc_driver_postgresql")

POINTS = ("staged", "written", "looked", "applied", "done")
KINDS = [("delta", "upsert"), ("iceberg", "upsert"), ("iceberg", "append")]


@pytest.fixture(params=KINDS, ids=" ".join)
def lake(
    request: pytest.FixtureRequest,
    conn: Connection,
    dsn: str,
    topic: Topic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[LakeWorld]:
    yield from _world(request.param, conn, dsn, tmp_path, monkeypatch)


@pytest.fixture(params=KINDS[:2], ids=" ".join)
def upsert(
    request: pytest.FixtureRequest,
    conn: Connection,
    dsn: str,
    topic: Topic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[LakeWorld]:
    yield from _world(request.param, conn, dsn, tmp_path, monkeypatch)


def _world(
    form: tuple[str, str],
    conn: Connection,
    dsn: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[LakeWorld]:
    kind, mode = form
    pytest.importorskip("deltalake" if kind == "delta" else "pyiceberg")
    catalog = "PYICEBERG_CATALOG__DEFAULT__"
    monkeypatch.setenv(f"{catalog}URI", f"sqlite:///{folder}/catalog.db")
    monkeypatch.setenv(f"{catalog}WAREHOUSE", f"file://{folder}/warehouse")
    yield LakeWorld(conn, dsn, folder, kind, mode)
    bulk.close()


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
    values = _history(1, 120)
    lake.publish(*values)
    for point in POINTS:
        for nth in (1, 2):
            failpoints.arm({f"pipeline.{point}": f"raise@{nth}"})
            with pytest.raises(RuntimeError, match=point):
                lake.run()
    failpoints.arm({})
    lake.run()
    assert lake.seen() == _wanted(lake, values)
    lake.publish(("k1", 100), ("k2", None))
    assert lake.run() == 1
    assert lake.seen() == _wanted(lake, [*values, ("k1", 100), ("k2", None)])


@pytest.mark.long
@pytest.mark.parametrize("point", ["looked", "applied"])
def test_killed_for_real(lake: LakeWorld, point: str) -> None:
    """SIGKILL before the table's commit, and between it and the move of the position."""
    values = _history(2, 40)
    lake.publish(*values)
    command = [sys.executable, "-m", "support.lakes", lake.dsn, str(lake.folder)]
    done = subprocess.run(
        [*command, lake.kind, "upsert" if lake.is_upsert else "append"],
        env={
            **os.environ,
            "GAPLESS_FAILPOINTS": f"pipeline.{point}=kill@2",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    lake.run()
    assert lake.seen() == _wanted(lake, values)


@pytest.mark.long
def test_ranges_in_any_order_and_twice(upsert: LakeWorld, conn: Connection) -> None:
    """Whatever was applied before, no row goes back, and a read of the whole log sets all right."""
    values = _history(3, 60)
    upsert.publish(*values)
    sequence(conn)
    pipeline = upsert.pipeline()
    register_pipeline(conn, pipeline)
    whole = next_batch(conn, replace(pipeline, batch_events=1000))
    bounds = [(n, f, a) for n in whole.end["outbox"] for f, a in _pieces(n, whole.end["outbox"][n])]
    random.Random(4).shuffle(bounds)
    before: dict[str, int] = {}
    for partition, first, after in [*bounds[: len(bounds) // 2], *bounds]:
        start, end = ({"outbox": {**whole.start["outbox"], partition: n}} for n in (first, after))
        _alone(upsert, replace(whole, start=start, end=end))
        rows = {row["key"]: row["offset"] for row in upsert.content()}
        assert all(rows[key] >= before[key] for key in rows.keys() & before.keys())
        before = rows
    _alone(upsert, whole)
    assert upsert.seen() == newest(values)
    version = upsert.content()
    _alone(upsert, whole)
    assert sorted(upsert.content(), key=str) == sorted(version, key=str)


def _pieces(partition: int, after: int) -> list[tuple[int, int]]:
    cuts = sorted({1, after, *range(3 + partition, after, 5)})
    return list(zip(cuts, cuts[1:], strict=False))


def _alone(lake: LakeWorld, batch: Any) -> None:
    """Write a range to the table, under a number of its own, without a pipeline's position."""
    from gapless.features.spark.pipeline.lake import plain
    from gapless.features.spark.pipeline.merge import changes_of

    pipeline = lake.pipeline()
    table = lake.table(pipeline)
    if batch.events == 0:
        return
    ends = {"outbox": {p: max(1, n) for p, n in batch.end["outbox"].items()}}
    begun = {"outbox": {p: min(n, ends["outbox"][p]) for p, n in batch.start["outbox"].items()}}
    only = {p for p in ends["outbox"] if begun["outbox"][p] < ends["outbox"][p]}
    rows = lake.rows_of(
        replace(
            batch,
            start={"outbox": begun["outbox"]},
            end={
                "outbox": {
                    p: ends["outbox"][p] if p in only else begun["outbox"][p]
                    for p in ends["outbox"]
                }
            },
        )
    )
    changes = changes_of(plain(rows), pipeline.target)
    table.fit(changes)
    lake.number = getattr(lake, "number", 0) + 1
    table.write(changes, "by hand", lake.number)
