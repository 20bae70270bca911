"""One Spark for several pipelines: a session each, and a new JVM when the old one is lost."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING

from gapless.features.spark.jobs import SILENCE_S
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.session import (
    end_session_within,
    forget_session,
    has_ended,
    kill_jvm,
    sibling,
    spark_session,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

END_S = 30.0  # for Spark's own end
_FAIR = {"spark.scheduler.mode": "FAIR"}
_POOL = "spark.scheduler.pool"


class SharedSpark:
    """Starts Spark for the first pipeline that needs it, and again after it was lost."""

    def __init__(
        self, pipelines: Sequence[Pipeline], master: str | None, conf: Mapping[str, str]
    ) -> None:
        """conf: takes precedence over that of each pipeline."""
        first, *others = (each.conf for each in pipelines)
        common = {
            name: value
            for name, value in first.items()
            if all(each.get(name) == value for each in others)
        }
        self._common = {**(_FAIR if others else {}), **common, **conf}
        self._name = "gapless pipelines" if others else f"gapless pipeline {pipelines[0].name}"
        self._master = master
        self._conf = dict(conf)
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._watcher = ThreadPoolExecutor(1, "gapless-watch")
        self._look: Future[bool] | None = None
        self._looked_s = self._began_s = 0.0

    def session(self, pipeline: Pipeline) -> SparkSession:
        """Return a session for a pipeline, for the thread that calls.

        Raises UsageError for settings that no session beside others can take, GaplessError when
        Spark does not start.
        """
        with self._lock:
            if self._session is not None and has_ended(self._session):
                forget_session()
                self._session = None
            if self._session is None:
                self._session = spark_session(self._master, name=self._name, conf=self._common)
            wanted = {**pipeline.conf, **self._conf}
            common = self._common.items()
            made = sibling(self._session, dict(wanted.items() - common))
            made.sparkContext.setLocalProperty(_POOL, pipeline.name)
            return made

    def is_lost(self) -> bool:
        """Tell whether Spark was started, and has ended."""
        session = self._session
        return session is not None and has_ended(session)

    def watch(self) -> None:
        """End a JVM that does not answer for SILENCE_S: its pipelines then fail, and start anew.

        Call it often; a call that comes late, after a pause of this process, begins to wait anew.
        """
        now = monotonic()
        paused = now - self._looked_s > SILENCE_S / 2
        self._looked_s = now
        if self._session is None:
            self._look = None
            return
        if self._look is None or self._look.done() or paused:
            self._began_s = now
            self._look = self._watcher.submit(has_ended, self._session)
        elif now - self._began_s > SILENCE_S:
            kill_jvm()
            self._look = None

    def close(self, seconds: float = END_S) -> None:
        """End Spark and its JVM; jobs that run are given up."""
        self._watcher.shutdown(wait=False, cancel_futures=True)
        if self._session is not None:
            end_session_within(self._session, seconds)
