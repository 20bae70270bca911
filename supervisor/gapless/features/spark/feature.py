"""The record of pipelines on Spark: its parts for rooms that know no feature."""

from __future__ import annotations

from gapless.feature import Feature, Listed

SPARK = Feature(
    commands={
        "pipeline": Listed(
            "run pipelines on Spark: topics into Parquet, Delta, a table or a topic, exactly once",
            "gapless.features.spark.commands",
        ),
    },
    ops=("gapless.features.spark.ops", "gapless.features.spark.pipeline.position"),
)
