"""The rows of a batch as files of Parquet; those of an archive are proven first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.folder import File, Folder
from gapless.features.spark.pipeline.position import MicroBatch
from gapless.features.spark.pipeline.verify import require_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_parquet(
    df: DataFrame, folder: Folder, below: str, pipeline: Pipeline, batch: MicroBatch
) -> list[File]:
    """Write a batch's rows into the new folder `below`; return the files.

    Raises HoleError when they are not the rows that an archive has to hold.
    """
    where = f"{folder.where}/{below}"
    # A timestamp in a folder's name means the same in any time zone of the session.
    writer = df.write.option("compression", "snappy").option("timeZone", "UTC")
    writer.partitionBy(*pipeline.target.partition_by).parquet(where)
    if pipeline.is_archive:
        require_batch(df.sparkSession.read.parquet(where), batch, pipeline.name)
    return folder.parquet_files(below)
