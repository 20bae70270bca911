"""The end of Spark in this process: of a session, and of its JVM."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gapless.features.spark.connect import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def end_session(session: SparkSession) -> None:
    """Stop a session and its JVM, and wait for the JVM's end."""
    from pyspark import SparkContext

    session.stop()
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark ends it at exit, not before
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def end_session_within(session: SparkSession, seconds: float) -> None:
    """Stop a session, even if its JVM does not end in time, or is gone already."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - as above

    def end() -> None:
        with suppress(Exception):
            end_session(session)

    ending = threading.Thread(target=end, daemon=True)
    ending.start()
    ending.join(seconds)
    if gateway is not None and gateway.proc.poll() is None:
        gateway.proc.kill()
        gateway.proc.wait()


def kill_jvm() -> None:
    """Kill the JVM of this process: all calls of it fail from then on."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - as above
    if gateway is not None:
        gateway.proc.kill()
        gateway.proc.wait()


def forget_session() -> None:
    """Kill the JVM of this process, so that spark_session() starts another one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    kill_jvm()
    holders: Any = SparkContext, SparkSession
    for holder, names in zip(holders, _RUNNING, strict=True):
        for name in names:
            setattr(holder, name, None)


# PySpark clears them only if the JVM answers.
_RUNNING = (("_gateway", "_jvm", "_active_spark_context"), ("_instantiatedSession",))


def has_ended(session: SparkSession) -> bool:
    """Tell whether a session's Spark has stopped, or its JVM is gone."""
    if is_connect(session):
        return bool(getattr(session, "is_stopped", False))
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - as above
    if gateway is None or gateway.proc.poll() is not None:
        return True
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())  # noqa: SLF001 - as above
    except Exception:  # noqa: BLE001 - Py4J has many, and each means the same
        return True
