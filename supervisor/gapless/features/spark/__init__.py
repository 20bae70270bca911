"""The log as a Spark source and sink, pipelines on it, and handlers as Spark tasks.

Everything here but `session` works without Spark: the classes that Spark calls are in the package
`pyspark_gapless`; they are thin, and delegate to `source`, `stream` and `sink`. pyspark, pyarrow
and numpy are imported inside functions only, so that `gapless` needs none of them.
"""
