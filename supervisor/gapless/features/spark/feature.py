"""The record of pipelines on Spark: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gapless.feature import Check, Feature, Listed

if TYPE_CHECKING:
    from gapless.status.section import StatusSection


def _sections() -> Sequence[StatusSection[Any]]:
    from gapless.features.spark.section import SECTION

    return (SECTION,)


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
    sections=_sections,
    checks=_checks,
    ops=(
        "gapless.features.spark.ops",
        "gapless.features.spark.pipeline.compact",
        "gapless.features.spark.pipeline.position",
    ),
)
