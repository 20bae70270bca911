"""Run a pipeline: batch after batch, each a fixed range, transformed and written exactly once."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from psycopg import Connection

from gapless.db.schema import schema
from gapless.errors import GaplessError, UsageError
from gapless.features.spark.offsets import to_json
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.position import (
    MicroBatch,
    lock_pipeline,
    next_batch,
    note,
    register_pipeline,
    require_target,
)
from gapless.features.spark.pipeline.target import require_target_package, target_of
from gapless.features.spark.reach import reached
from gapless.features.spark.session import explained, spark_session
from gapless.features.spark.standby import open_control

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Told = Callable[[str], None]
_FIRST_POLL_S = 1.0


def run_pipeline(
    pipeline: Pipeline,
    dsn: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    tell: Told,
    wait: Callable[[float], bool] | None = None,
) -> int:
    """Run until all events are done or, with `wait`, until that returns False; return their number.

    master, conf: for Spark; they take precedence over the pipeline's own. wait: sleeps so many
    seconds at most; False means stop. tell: takes a line of progress. Raises UsageError or
    GaplessError in one sentence; commits stay.
    """
    transform = load_transform(pipeline)  # before a needless start of Spark
    require_target_package(pipeline)
    with closing(open_control(dsn)) as conn:
        register_pipeline(conn, pipeline)
        lock_pipeline(conn, pipeline.name)
        require_target(conn, pipeline)
        note(conn, pipeline.name, None)
        with _noted(conn, pipeline.name):
            said = {**pipeline.conf, **(conf or {})}
            spark = spark_session(master, name=f"gapless pipeline {pipeline.name}", conf=said)
            return _Run(pipeline, conn, spark, transform, tell).loop(wait)


class _Run:
    """One run of a pipeline, which holds the pipeline's lock by its session."""

    def __init__(
        self,
        pipeline: Pipeline,
        conn: Connection[Any],
        spark: SparkSession,
        transform: Callable[[DataFrame], DataFrame],
        tell: Told,
    ) -> None:
        self._pipeline = pipeline
        self._where = reached(conn)
        self._conn = conn
        self._spark = spark
        self._transform = transform
        self._tell = tell
        self._target = target_of(pipeline, spark, self._where)

    def loop(self, wait: Callable[[float], bool] | None) -> int:
        self._target.begin(self._conn)
        done = 0
        while True:
            batch = next_batch(self._conn, self._pipeline)
            if batch.events:
                began_s = monotonic()
                self._target.bring(self._conn, batch, partial(self._frame, batch))
                done += batch.events
                self._tell(
                    f"batch {batch.number}: {batch.events:,} events to "
                    f"{self._pipeline.target}, {monotonic() - began_s:.1f} s"
                )
            elif wait is None:
                return done
            if wait is not None and not wait(0.0 if batch.events else _FIRST_POLL_S):
                return done

    def _frame(self, batch: MicroBatch) -> DataFrame:
        """Return the batch's events, transformed."""
        options = {
            "url": self._where.dsn,  # Spark redacts it
            "schema": schema(),
            "subscribe": ",".join(self._pipeline.topics),
            "columns": ",".join(self._pipeline.columns),
            "startingOffsets": json.dumps(to_json(batch.start)),
            "endingOffsets": json.dumps(to_json(batch.end)),
        }
        if self._pipeline.event_types:
            options["eventTypes"] = ",".join(self._pipeline.event_types)
        if self._pipeline.where is not None:
            options |= {"where": self._pipeline.where, "params": self._pipeline.params}
        df = self._spark.read.format("gapless").options(**options).load()
        return self._transform(df)


def load_transform(pipeline: Pipeline) -> Callable[[DataFrame], DataFrame]:
    """Return the function of the pipeline's sql or transform; neither: rows stay unchanged."""
    if pipeline.sql is not None:
        text = pipeline.sql

        def by_sql(df: DataFrame) -> DataFrame:
            df.createOrReplaceTempView("events")
            return df.sparkSession.sql(text.rstrip().removesuffix(";"))

        return by_sql
    if pipeline.transform is None:
        return lambda df: df
    return _function(pipeline.name, pipeline.transform)


def _function(name: str, reference: str) -> Callable[[DataFrame], DataFrame]:
    module, _, attribute = reference.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"pipeline {name}: transform {reference!r} cannot be had ({error}): "
            "write module:function"
        ) from error
    if not callable(found):
        raise UsageError(f"pipeline {name}: transform {reference!r} is no function")

    def transform(df: DataFrame) -> DataFrame:
        made: DataFrame = found(df)
        if not hasattr(made, "mapInArrow"):
            raise UsageError(
                f"pipeline {name}: {reference} returned {type(made).__name__}, no DataFrame"
            )
        return made

    return transform


@contextmanager
def _noted(conn: Connection[Any], name: str) -> Iterator[None]:
    """Record for status the error that ends a run, and raise it in one sentence."""
    try:
        yield
    except GaplessError as error:
        _note(conn, name, error)
        raise
    except Exception as error:
        plain = explained(error)
        _note(conn, name, plain)
        raise plain from error


def _note(conn: Connection[Any], name: str, error: GaplessError) -> None:
    if not conn.closed:
        note(conn, name, str(error)[:500])
