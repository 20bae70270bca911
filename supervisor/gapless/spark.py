"""The import for programs on Spark; the connector itself is `gapless.features.spark`."""

from gapless.features.spark.session import spark_session

__all__ = ["spark_session"]
