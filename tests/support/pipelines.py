"""A pipeline of Spark, as a file that declares little gives it."""

from typing import Any

from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.spec import TargetSpec


def pipeline(**more: Any) -> Pipeline:
    """Return pipeline p of topic outbox into topic elsewhere, unless more says otherwise."""
    words: dict[str, Any] = {
        "name": "p", "topics": ("outbox",), "start": "earliest", "columns": ("value",), "batch_events": 5,
        "sql": None, "transform": None, "target": TargetSpec(kind="topic", where="elsewhere"),
    }  # fmt: skip
    return Pipeline(**words | more)
