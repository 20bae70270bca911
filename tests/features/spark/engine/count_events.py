"""A job for spark-submit: counts the events of topic outbox, and tells where its tasks run.

Prints the number, the Python of the tasks, and the file of their gapless.
"""

import sys
from collections.abc import Iterator

from gapless.spark import spark_session


def where(_: Iterator[int]) -> Iterator[tuple[str, str]]:
    import gapless

    yield sys.executable, str(gapless.__file__)


if __name__ == "__main__":
    spark = spark_session()
    events = spark.read.format("gapless").option("subscribe", "outbox").load().count()
    ((python, package),) = spark.sparkContext.parallelize([0], 1).mapPartitions(where).collect()
    print(events, python, package)  # noqa: T201 - it is what it is for
