"""`gapless run --engine spark`: a session of Spark, and an engine until it is told to stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Mapping
from socket import socket
from typing import TYPE_CHECKING

from gapless.errors import UsageError
from gapless.features.metrics.keep import ExporterKeeper
from gapless.features.spark.connect import connect_address
from gapless.features.spark.ending import end_session_within
from gapless.features.spark.engine import Engine, require_ordered
from gapless.features.spark.executors import require_executors
from gapless.features.spark.session import spark_session
from gapless.worker.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END_S = 30.0  # for Spark's own end, after a drain


def serve_on_spark(
    plan: Plan,
    references: tuple[str, ...],
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    metrics: socket | None = None,
) -> int:
    """Run the handlers of a plan as tasks of Spark until SIGTERM or Ctrl-C; 0 when drained.

    master and conf are those of spark_session(). metrics: a listening socket for the driver's
    health and the metrics of the log, without those of the tasks; None: no metrics. Takes over both
    signals of this process. Raises UsageError and GaplessError as spark_session() and Engine.run()
    do.
    """
    require_ordered(plan)
    if connect_address(master, conf or {}) is not None:
        raise UsageError(
            "handlers are tasks of RDDs, which Spark Connect does not have: name the cluster as "
            "--master, and unset SPARK_REMOTE and spark.remote"
        )
    exporter = ExporterKeeper(plan, metrics, list)
    try:
        exporter.turn(None, drains=False)  # forked before Spark's threads, and our sessions
        session = spark_session(master, name="gapless run", conf=conf)
        require_executors(session)
        return _serve(Engine(plan, references, session.sparkContext, exporter), session)
    finally:
        exporter.end()


def _serve(engine: Engine, session: SparkSession) -> int:
    stop = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stop.set())
    end_s = 0.0  # after an error there is nothing to wait for
    try:
        code = engine.run(lambda seconds: not stop.wait(seconds))
        end_s = END_S
    finally:
        if not end_s:
            logging.disable()  # Py4J's messages about the end are no news
        end_session_within(session, end_s)
    return code
