"""The record of pipelines on Spark: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.feature import Check, Feature, Listed


def _checks() -> Sequence[Check]:
    from gapless.features.spark.checks import pipelines

    return (pipelines,)


SPARK = Feature(
    commands={
        "pipeline": Listed(
            "run pipelines on Spark: topics into Parquet, Delta, a table or a topic, exactly once",
            "gapless.features.spark.commands",
        ),
    },
    checks=_checks,
    ops=(
        "gapless.features.spark.ops",
        "gapless.features.spark.pipeline.compact",
        "gapless.features.spark.pipeline.position",
    ),
)
