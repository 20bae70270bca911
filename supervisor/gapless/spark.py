"""The import for programs on Spark; the connector itself is `gapless.features.spark`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gapless.features.spark.registered import schema_of
from gapless.features.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark_gapless.lag import LagListener

__all__ = ["LagListener", "schema_of", "spark_session"]


def __getattr__(name: str) -> Any:
    """Import the listener when it is asked for: its class is one of PySpark's."""
    if name != "LagListener":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from pyspark_gapless.lag import LagListener  # noqa: PLC0415

    return LagListener
