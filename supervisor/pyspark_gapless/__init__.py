"""The entry that Spark finds: `spark.read.format("gapless")` needs the installed wheel alone.

Spark imports every top-level module called pyspark_* and registers its DefaultSource. The classes
here only adapt; their work is done in the package gapless.features.spark, which needs no Spark.

Spark's own filter push-down for Python sources is not offered: a filter that it pushes down for one
query leaks into others of the same DataFrame, with silently wrong results. Options do the same.
"""

from gapless.features.spark.home import require_data_sources

require_data_sources()  # before the imports that an older PySpark cannot do

from pyspark_gapless.source import GaplessSource  # noqa: E402

DefaultSource = GaplessSource

__all__ = ["DefaultSource", "GaplessSource"]
