"""Parquet files that appear once, whole and under names that never change, for any reader.

A batch's files are written into a folder beside the target, then written down in the database with
the names they will have, then moved one by one, and only then the pipeline moves on. Interrupted
before they are written down, the batch is written anew and nobody has seen it; after, it is
finished by moving what is not moved yet. Readers of the folder need no manifest, no checkpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from psycopg import Connection

from gapless.errors import GaplessError
from gapless.failpoints import hit
from gapless.spark.pipeline.document import Pipeline
from gapless.spark.pipeline.position import Batch, end_batch, plan_files, state
from gapless.spark.pipeline.verify import require_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Files:
    """The folder a pipeline writes to, in any file system Spark can reach."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 - the only way to Hadoop's file systems
        self._spark = spark
        self._pipeline = pipeline
        self._target = pipeline.target.where.rstrip("/")
        self._staging = f"{self._target}_staging/{pipeline.name}"
        path = self._path(self._target)
        self._fs: Any = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001

    def begin(self, conn: Connection[Any]) -> None:
        """Sweep what interrupted runs left, but for files that are written down."""
        if state(conn, self._pipeline.name).files is None:
            self._fs.delete(self._path(self._staging), True)  # noqa: FBT003 - Java's

    def write(self, conn: Connection[Any], batch: Batch, df: DataFrame) -> None:
        """Write a batch into the staging folder, and write down where its files go."""
        folder = f"{self._staging}/{uuid4().hex}"
        writer = df.write.option("compression", "snappy")
        writer.partitionBy(*self._pipeline.target.partition_by).parquet(folder)
        if self._pipeline.is_archive:
            require_batch(self._spark.read.parquet(folder), batch, self._pipeline.name)
        moves = []
        for number, source in enumerate(sorted(self._parquet_files(folder))):
            parts = source.removeprefix(folder).strip("/").split("/")[:-1]
            name = f"{self._pipeline.name}-{batch.number:010d}-{number:05d}.parquet"
            moves.append([source, "/".join([self._target, *parts, name])])
        plan_files(conn, self._pipeline.name, batch, moves)
        hit("pipeline.written")

    def finish(self, conn: Connection[Any], batch: Batch) -> None:
        """Move the files that were written down, and the pipeline past the batch."""
        for number, (source, goal) in enumerate(state(conn, self._pipeline.name).files):
            self._move(source, goal)
            if number == 0:
                hit("pipeline.moved")
        hit("pipeline.applied")
        with conn.transaction():
            end_batch(conn, self._pipeline.name, batch)
        hit("pipeline.done")
        self._fs.delete(self._path(self._staging), True)  # noqa: FBT003 - Java's

    def _move(self, source: str, goal: str) -> None:
        if self._fs.exists(self._path(goal)):
            return  # moved before an interruption
        self._fs.mkdirs(self._path(goal).getParent())
        if not self._fs.rename(self._path(source), self._path(goal)):
            raise GaplessError(f"cannot move {source} to {goal}: the file system refuses")

    def _parquet_files(self, folder: str) -> list[str]:
        found = []
        listing = self._fs.listFiles(self._path(folder), True)  # noqa: FBT003 - Java's
        while listing.hasNext():
            path = str(listing.next().getPath().toUri().getPath())
            if path.endswith(".parquet"):
                found.append(path)
        # As it was named, scheme and all, not as the file system calls it.
        bare = str(self._path(folder).toUri().getPath())
        return [folder + path.removeprefix(bare) for path in found]

    def _path(self, where: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(where)
