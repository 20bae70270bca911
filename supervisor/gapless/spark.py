"""The names that a program on Spark imports; the connector itself is `gapless.features.spark`."""

from gapless.features.spark.session import spark_session

__all__ = ["spark_session"]
