"""Small files of days that are over become one, and every reader finds each row once at any moment."""

import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection, connect

from gapless import failpoints
from gapless.errors import GaplessError, UsageError
from gapless.log.topics import Topic

pa = pytest.importorskip("pyarrow")

import pyarrow.dataset as ds  # noqa: E402 - after the skip
import pyarrow.parquet as pq  # noqa: E402

from gapless.features.spark.archive import open_archive  # noqa: E402
from gapless.features.spark.pipeline import compact, lease, verify  # noqa: E402
from gapless.features.spark.pipeline.compact import compact_pipeline  # noqa: E402

Gapless = Callable[..., Any]
OLD, TODAY = "day=2026-01-01", "day=9999-12-31"
WHEN = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
BATCHES = 6  # finished ones


class Cold:
    """The folder of a pipeline as its runs leave it: a file of ten rows for each batch and day."""

    def __init__(self, conn: Connection[Any], folder: Path) -> None:
        self.conn = conn
        self.folder = folder
        conn.execute(
            "select gapless.register_pipeline('cold', array['outbox'], 'earliest', %s)",
            [f"parquet {folder}"],
        )
        conn.execute("update gapless.pipeline set batch = %s", [BATCHES])
        for day in (OLD, TODAY):
            for batch in range(BATCHES):
                self.put(day, batch)

    def put(
        self, day: str, batch: int, *, number: int = 0, name: str = "cold", **columns: Any
    ) -> None:
        first = batch * 100 + (50 if day == TODAY else 0) + number * 10
        rows = {
            "offset": list(range(first, first + 10)),
            "timestamp": pa.array([WHEN.replace(tzinfo=None)] * 10, pa.timestamp("us")),
            "value": [f"x{n}" for n in range(10)],
            **{name: [value] * 10 for name, value in columns.items()},
        }
        place = self.folder / day / f"{name}-{batch:010d}-{number:05d}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(rows), place, use_deprecated_int96_timestamps=True)
        place.with_name(f".{place.name}.crc").write_bytes(b"crc")

    def names(self, day: str = OLD) -> list[str]:
        return sorted(each.name for each in (self.folder / day).glob("*.parquet"))

    def rows(self) -> Counter[int]:
        """The rows that a reader finds which knows nothing of gapless."""
        found = ds.dataset(self.folder, format="parquet", partitioning="hive").to_table()
        assert set(found["timestamp"].to_pylist()) == {WHEN.replace(tzinfo=None)}
        return Counter(found["offset"].to_pylist())


@pytest.fixture
def cold(conn: Connection, topic: Topic, tmp_path: Path) -> Cold:
    return Cold(conn, tmp_path / "cold")


MERGED = "cold-0000000000+0000000005-00000.parquet"


def test_files_of_days_that_are_over_become_one(cold: Cold, gapless: Gapless) -> None:
    before, of_today = cold.rows(), cold.names(TODAY)
    cold.put(OLD, BATCHES)  # its batch is not finished: the run may move the file again
    told = gapless("pipeline", "compact", "cold", "--json").json
    assert [(each["folder"], each["files"], each["merged"]) for each in told] == [
        (str(cold.folder / OLD), BATCHES, 1)
    ]
    assert cold.names() == [MERGED, f"cold-{BATCHES:010d}-00000.parquet"]
    assert cold.names(TODAY) == of_today
    assert cold.rows() == before + Counter(range(600, 610))
    assert pq.read_metadata(cold.folder / OLD / MERGED).num_row_groups == 1
    columns = pq.ParquetFile(cold.folder / OLD / MERGED).schema
    assert columns.column(1).physical_type == "INT96", "as Spark has written it"
    assert not [each for each in (cold.folder / OLD).iterdir() if "crc" in each.name][1:]
    assert gapless("pipeline", "compact", "cold", "--json").json == []
    cold.conn.execute("update gapless.pipeline set batch = batch + 1")
    assert len(compact_pipeline(cold.conn, "cold")) == 1
    assert cold.names() == ["cold-0000000000+0000000006-00000.parquet"]
    assert sum(cold.rows().values()) == 130


def test_every_reader_finds_each_row_once_at_each_point(
    cold: Cold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a file that a run gives its name meanwhile stays; no run does so during the exchange."""
    monkeypatch.setattr(lease, "FILES_MS", 100)
    before = cold.rows()
    points: list[str] = []

    def look(name: str) -> None:
        assert cold.rows() == before
        assert open_archive(str(cold.folder)).count_rows() == sum(before.values())
        points.append(name)
        if name == "compact.written":
            with lease.files_locked(cold.conn, "cold"):
                cold.put(OLD, BATCHES)
            before.update(range(600, 610))
        elif name == "compact.linked":
            with connect(cold.conn.info.dsn, autocommit=True) as other:
                with pytest.raises(GaplessError, match="another process moves files of pipeline"):
                    with lease.files_locked(other, "cold"):
                        pass

    failpoints.arm(dict.fromkeys(["compact.written", "compact.linked", "compact.swapped"], look))
    compact_pipeline(cold.conn, "cold")
    assert points == ["compact.written", "compact.linked", "compact.swapped"]
    assert cold.rows() == before
    assert cold.names() == [MERGED, f"cold-{BATCHES:010d}-00000.parquet"]


def kill_at(cold: Cold, point: str) -> None:
    """Have the command killed at a point of its work."""
    killed = subprocess.run(
        [sys.executable, "-m", "gapless", "pipeline", "compact", "cold"],
        env=os.environ
        | {"GAPLESS_DSN": cold.conn.info.dsn, "GAPLESS_FAILPOINTS": f"compact.{point}=kill"},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr


@pytest.mark.parametrize("point", ["written", "linked", "swapped"])
def test_killed_at_each_point_every_row_is_there_once(cold: Cold, point: str) -> None:
    before = cold.rows()
    kill_at(cold, point)
    assert cold.rows() == before
    left = [each for each in cold.folder.iterdir() if each.name.startswith(".")]
    assert left
    if point == "swapped":
        # A run that was paused before its move, and knew nothing of the lock.
        cold.put(f".{OLD}.compacting", BATCHES)
        before.update(range(600, 610))
    compact_pipeline(cold.conn, "cold")
    assert cold.rows() == before
    assert cold.names()[0] == MERGED
    assert not [each for each in cold.folder.iterdir() if each.name.startswith(".")]


@pytest.mark.parametrize("point", ["linked", "swapped"])
def test_pipelines_may_share_a_folder(cold: Cold, point: str) -> None:
    """The run of one clears away what a killed run of the other has left, and brings nothing back."""
    cold.conn.execute(
        "select gapless.register_pipeline('warm', array['outbox'], 'earliest', %s)",
        [f"parquet {cold.folder}"],
    )
    cold.conn.execute("update gapless.pipeline set batch = %s", [BATCHES])
    for batch in (0, 1):
        cold.put(OLD, batch, number=1, name="warm")
    before = cold.rows()
    kill_at(cold, point)
    (done,) = compact_pipeline(cold.conn, "warm")
    assert done.files == 2
    assert cold.rows() == before
    compact_pipeline(cold.conn, "cold")
    assert cold.rows() == before
    assert cold.names() == [MERGED, "warm-0000000000+0000000001-00000.parquet"]
    with compact._alone(cold.folder), pytest.raises(UsageError, match="are being merged"):
        compact_pipeline(cold.conn, "warm")


def test_the_new_folder_and_files_are_as_open_as_the_old_ones(cold: Cold) -> None:
    folder = cold.folder / OLD
    folder.chmod(0o2775)
    for each in folder.iterdir():
        each.chmod(0o664)
    if os.geteuid() == 0:
        os.chown(folder, 4711, 4712)
        os.chown(folder / cold.names()[0], 4711, 4712)
    wanted = folder.stat(), (folder / cold.names()[0]).stat()
    mask = os.umask(0o077)
    try:
        compact_pipeline(cold.conn, "cold")
    finally:
        os.umask(mask)
    for has, was in zip((folder.stat(), (folder / MERGED).stat()), wanted, strict=True):
        assert (has.st_mode, has.st_uid, has.st_gid) == (was.st_mode, was.st_uid, was.st_gid)


def test_a_day_may_have_more_files_than_a_process_may_open(cold: Cold) -> None:
    for number in range(1, 10):
        for batch in range(BATCHES):
            cold.put(OLD, batch, number=number)
    before = cold.rows()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken + 20, hard))
    try:
        compact_pipeline(cold.conn, "cold")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert cold.rows() == before
    assert pq.read_metadata(cold.folder / OLD / MERGED).num_row_groups == 1


def test_files_that_do_not_fit_in_one_stay_apart(
    cold: Cold, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (cold.folder / OLD / cold.names()[0]).stat().st_size
    monkeypatch.setattr(compact, "BYTES_MAX", size * 5 // 2)
    before = cold.rows()
    cold.put(OLD, 5, number=1)
    (done,) = compact_pipeline(cold.conn, "cold")
    assert (done.files, done.merged) == (6, 3)
    assert cold.rows() == before + Counter(range(510, 520))


def test_a_check_that_listed_the_small_files_reads_again(
    cold: Cold, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []

    def slow(folder: str) -> Any:
        found = open_archive(folder)
        opened.append(Path(folder))
        compact_pipeline(cold.conn, "cold")
        return found

    for day in (OLD, TODAY):
        for each in (cold.folder / day).glob("*.parquet"):
            rows = pq.read_table(each, partitioning=None).append_column(
                "topic", pa.array(["outbox"] * 10)
            )
            pq.write_table(rows.append_column("partition", pa.array([0] * 10, pa.int32())), each)
    monkeypatch.setattr(verify, "open_archive", slow)
    assert verify._problem(str(cold.folder), "outbox", 0, 0, 9) is None
    assert len(opened) == 2


def test_a_column_that_is_new_is_null_in_older_rows(cold: Cold) -> None:
    cold.put(OLD, 5, number=1, added="new")
    compact_pipeline(cold.conn, "cold")
    added = pq.read_table(cold.folder / OLD / MERGED)["added"].to_pylist()
    assert Counter(added) == {None: 60, "new": 10}


def test_refusals_say_why_and_change_nothing(cold: Cold, tmp_path: Path) -> None:
    before = cold.names()
    with connect(cold.conn.info.dsn, autocommit=True) as other, lease.compacting(other, "cold"):
        with pytest.raises(UsageError, match="files of pipeline cold are being merged, here or"):
            compact_pipeline(cold.conn, "cold")
    cold.put(OLD, 5, number=1, value=7)
    for number in (2, 3):
        cold.put("day=2026-01-02", 5, number=number)
    with pytest.raises(
        GaplessError, match=r"pipeline cold: .*day=2026-01-01: .*nothing was changed there; 1 other"
    ):
        compact_pipeline(cold.conn, "cold")
    assert cold.names() == [*before, "cold-0000000005-00001.parquet"]
    assert len(cold.names("day=2026-01-02")) == 1, "the others are merged"
    assert not [each for each in cold.folder.iterdir() if each.name.startswith(".")]
    for target, said in {
        "delta /data": "writes a delta: only files of Parquet are merged here",
        "parquet s3://lake/cold": "s3://lake/cold is no folder of this machine",
    }.items():
        cold.conn.execute("update gapless.pipeline set target = %s", [target])
        with pytest.raises(UsageError, match=said):
            compact_pipeline(cold.conn, "cold")
    with pytest.raises(UsageError, match="pipeline warm has never run in this database"):
        compact_pipeline(cold.conn, "warm")
