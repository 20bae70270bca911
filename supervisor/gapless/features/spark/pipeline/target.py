"""The targets of a pipeline: files, tables of Delta and Iceberg, of a database, or a topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from psycopg import Connection

from gapless.failpoints import hit
from gapless.features.spark.events import check_columns
from gapless.features.spark.pipeline.delta import Delta, require_delta
from gapless.features.spark.pipeline.delta_merge import DeltaMerge
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.elsewhere import OtherTable
from gapless.features.spark.pipeline.files import Files
from gapless.features.spark.pipeline.iceberg import Iceberg, require_iceberg
from gapless.features.spark.pipeline.lake import Lake
from gapless.features.spark.pipeline.position import MicroBatch, end_batch
from gapless.features.spark.pipeline.rows import stage_events
from gapless.features.spark.pipeline.table import Table
from gapless.features.spark.reach import Reached
from gapless.features.spark.sink import publish_messages, staging
from gapless.settings import dereference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Target(Protocol):
    """Takes batches, each exactly once, after any interruption."""

    def begin(self, conn: Connection[Any]) -> None:
        """Prepare a run, before its first batch."""

    def bring(
        self, conn: Connection[Any], batch: MicroBatch, frame: Callable[[], DataFrame]
    ) -> None:
        """Write a batch, and move the pipeline past it in the transaction that makes it visible.

        frame: reads and transforms the batch. It is not called for a batch that was interrupted
        after its rows were safe: that is only finished.
        """


@runtime_checkable
class Probing(Protocol):
    """A target that may refuse rows for their values."""

    def probe(self, conn: Connection[Any], df: DataFrame) -> None:
        """Bring some rows, and leave nothing of it."""


def probe(target: Target, conn: Connection[Any], df: DataFrame) -> None:
    """Do with some rows all that may fail for their values, and leave nothing of it."""
    if isinstance(target, Probing):
        target.probe(conn, df)
    else:
        df.write.format("noop").mode("overwrite").save()


class TopicTarget:
    """A topic: a batch's rows become events of it, published with the pipeline's position."""

    def __init__(self, pipeline: Pipeline, where: Reached) -> None:
        self._pipeline = pipeline
        self._where = where

    def begin(self, conn: Connection[Any]) -> None:
        """Do nothing before the first batch."""

    def bring(
        self, conn: Connection[Any], batch: MicroBatch, frame: Callable[[], DataFrame]
    ) -> None:
        """See Target."""
        topic, df = self._pipeline.target.where, frame()
        check_columns(df.columns, topic=topic)
        with staging(conn) as job:
            staged = stage_events(df, self._where, topic, job)
            hit("pipeline.written")
            with conn.transaction():
                publish_messages(conn, staged)
                hit("pipeline.applied")
                end_batch(conn, self._pipeline.name, batch)
        hit("pipeline.done")

    def probe(self, conn: Connection[Any], df: DataFrame) -> None:
        """See Probing."""
        with staging(conn) as job:
            staged = stage_events(df, self._where, self._pipeline.target.where, job)
            with conn.transaction(force_rollback=True):
                publish_messages(conn, staged)


def target_of(pipeline: Pipeline, spark: SparkSession, where: Reached) -> Target:
    """Return the target of a pipeline."""
    target = pipeline.target
    if target.kind == "iceberg":
        return Lake(pipeline, Iceberg(target))
    if target.kind == "delta":
        return Lake(pipeline, DeltaMerge(target)) if target.is_upsert else Delta(spark, pipeline)
    if target.is_folder:
        return Files(spark, pipeline)
    if target.kind == "table":
        return OtherTable(pipeline, target.url) if target.url else Table(pipeline, where)
    return TopicTarget(pipeline, where)


def require_target_package(pipeline: Pipeline) -> None:
    """Raise UsageError where a package, or a secret, that the target needs is missing."""
    if pipeline.target.url is not None:
        dereference(pipeline.target.url)
    if pipeline.target.kind == "delta":
        require_delta()
    if pipeline.target.kind == "iceberg":
        require_iceberg()
