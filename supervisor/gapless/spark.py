"""The import for programs on Spark; the connector itself is `gapless.features.spark`."""

from gapless.features.spark.registered import schema_of
from gapless.features.spark.session import spark_session

__all__ = ["schema_of", "spark_session"]
