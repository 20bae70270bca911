"""One Spark session, local[2], for all tests that need one: it takes longer to start than they run."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from gapless.errors import UsageError
from gapless.features.spark.ending import end_session
from gapless.features.spark.home import class_archive, java_command, prepare
from gapless.features.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY = "600m"
_CHANGED = ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/features/spark/engine/" in item.path.as_posix():
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))
            # What PySpark, pandas and their sockets warn of is not ours to mend.
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session, found by nothing but discovery: the format is not registered by hand."""
    before = {name: os.environ.get(name) for name in _CHANGED}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            home = prepare()
            # To make the archive of classes takes longer than a start without it.
            if class_archive(home, java_command(os.environ))[1]:
                os.environ["GAPLESS_SPARK_NO_ARCHIVE"] = "1"
            session = spark_session("local[2]", name="gapless tests", conf=CONF, by_hand=False)
        except UsageError as missing:
            pytest.skip(str(missing))
        finally:
            os.environ.pop("GAPLESS_SPARK_NO_ARCHIVE", None)
        yield session
        end_session(session)
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


CONF: dict[str, str] = {
    "spark.driver.memory": MEMORY,
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.streaming.pollingDelay": "50ms",
}
