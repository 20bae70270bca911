"""The record of pipelines on Spark: its parts for rooms that know no feature."""

from __future__ import annotations

from types import ModuleType

from gapless.feature import Feature, Listed


def _commands() -> ModuleType:
    from gapless.features.spark import commands

    return commands


SPARK = Feature(
    commands={
        "pipeline": Listed(
            "run pipelines on Spark: topics into Parquet, Delta, a table or a topic, exactly once",
            _commands,
        ),
    },
    ops=("gapless.features.spark.ops", "gapless.features.spark.pipeline.position"),
)
