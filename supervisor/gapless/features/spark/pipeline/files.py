"""Parquet files that appear once, whole and under names that never change, for any reader.

A batch's files are written into a folder beside the target, then recorded in the database with
their final names, then moved one by one, and only then the pipeline moves on. If a run is
interrupted before the record, the batch is written anew and no reader has seen it; after it, the
remaining files are moved. Readers of the folder need no manifest, no checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from psycopg import Connection

from gapless.errors import GaplessError, UsageError
from gapless.failpoints import hit
from gapless.features.spark.pipeline.compact import BatchFile, batches_of
from gapless.features.spark.pipeline.days import with_days
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.folder import Folder
from gapless.features.spark.pipeline.lease import files_locked
from gapless.features.spark.pipeline.parquet import write_parquet
from gapless.features.spark.pipeline.position import MicroBatch, end_batch, plan_files, state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Files:
    """The folder a pipeline writes to, in any file system that Spark can reach."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._target = Folder(spark, pipeline.target.where)
        self._staging = Folder(spark, f"{self._target.where}_staging")

    def begin(self, conn: Connection[Any]) -> None:
        """Sweep the remains of interrupted runs, except recorded files."""
        if "_delta_log" in self._target.names():
            raise UsageError(
                f"{self._target.where} is a Delta table, whose readers would not see files that "
                f"are only put there: write to: {{delta: {self._target.where}}}"
            )
        staged = self._staging.names(self._pipeline.name)
        if state(conn, self._pipeline.name).files is None:
            self._sweep(staged)

    def bring(
        self, conn: Connection[Any], batch: MicroBatch, frame: Callable[[], DataFrame]
    ) -> None:
        """See Target: a recorded batch is only finished."""
        if state(conn, self._pipeline.name).files is None:
            self.write(conn, batch, with_days(frame(), self._pipeline.target))
        self.finish(conn, batch)

    def write(self, conn: Connection[Any], batch: MicroBatch, df: DataFrame) -> None:
        """Write a batch into the staging folder, and record the final places of its files."""
        below = f"{self._pipeline.name}/{uuid4().hex}"
        files = write_parquet(df, self._staging, below, self._pipeline, batch)
        moves = []
        merged: dict[str, list[BatchFile]] = {}
        for number, file in enumerate(files):
            parts = file.name.split("/")[:-1]
            name = f"{self._pipeline.name}-{batch.number:010d}-{number:05d}.parquet"
            place = "/".join([*parts, name])
            goal = f"{self._target.where}/{place}"
            # A move does nothing to an existing file, which would pass for this batch's; one that
            # was merged has another name.
            folder = "/".join(parts)
            if folder not in merged:
                merged[folder] = self._merged(folder)
            into = next((m.name for m in merged[folder] if m.covers(batch.number)), None)
            if into is not None or self._target.exists(place):
                raise _is_there(self._pipeline.name, goal, into)
            moves.append([f"{self._staging.where}/{below}/{file.name}", goal])
        hit("pipeline.staged")
        plan_files(conn, self._pipeline.name, batch, moves)
        hit("pipeline.written")

    def _merged(self, folder: str) -> list[BatchFile]:
        """Return the merged files of this pipeline in a folder; only local ones have any."""
        if "://" in self._target.uri:
            return []
        there = self._target.names(folder, f"{self._pipeline.name}-*+*.parquet")
        found = [each for each in map(batches_of, there) if each is not None]
        return [each for each in found if each.pipeline == self._pipeline.name]

    def finish(self, conn: Connection[Any], batch: MicroBatch) -> None:
        """Move the recorded files, and the pipeline past the batch."""
        with files_locked(conn, self._pipeline.name):
            for number, (source, goal) in enumerate(state(conn, self._pipeline.name).files):
                self._target.move(source, goal)
                if number == 0:
                    hit("pipeline.moved")
        staged = self._staging.names(self._pipeline.name)
        hit("pipeline.applied")
        with conn.transaction():
            end_batch(conn, self._pipeline.name, batch)
        hit("pipeline.done")
        self._sweep(staged)

    def _sweep(self, staged: Sequence[str]) -> None:
        """Remove staged folders. Before: the session proved that it had the pipeline, after a look.

        A later run, which takes over while this one is paused, may have recorded files in others.
        """
        for each in staged:
            self._staging.remove(f"{self._pipeline.name}/{each}")


def _is_there(name: str, goal: str, into: str | None) -> GaplessError:
    """Return the error of a file that is there, or was merged into another one."""
    merged = "" if into is None else f" (it was merged into {into}, with other batches)"
    remedy = ", or take the file away" if into is None else ""
    return GaplessError(
        f"{goal} is there already, and is not of this database{merged}: was the database restored, "
        f"the pipeline removed, or does another one have a pipeline {name}? Name another folder"
        f"{remedy}"
    )
