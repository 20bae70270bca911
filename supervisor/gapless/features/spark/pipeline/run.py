"""Run a pipeline: batch after batch, each a fixed range, transformed and written exactly once."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import Connection

from gapless.db.schema import schema
from gapless.errors import GaplessError, UsageError
from gapless.features.spark.executors import require_executors
from gapless.features.spark.offsets import to_json
from gapless.features.spark.pipeline.bad import columns_to_read, frame_of, judged, sift
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.isolate import (
    ISOLATED_MAX,
    Stretch,
    inside,
    is_of_a_value,
    isolate,
    outside,
    reason_of,
    stretches,
)
from gapless.features.spark.pipeline.lease import Heart, lock_pipeline, take_pipeline
from gapless.features.spark.pipeline.position import (
    MicroBatch,
    next_batch,
    note,
    register_pipeline,
    require_target,
)
from gapless.features.spark.pipeline.target import probe, require_target_package, target_of
from gapless.features.spark.reach import reached
from gapless.features.spark.session import explained, spark_session
from gapless.features.spark.standby import open_control

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Told = Callable[[str], None]
Transform = Callable[["DataFrame"], "DataFrame"]
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
    said = {**pipeline.conf, **(conf or {})}

    def session() -> SparkSession:
        spark = spark_session(master, name=f"gapless pipeline {pipeline.name}", conf=said)
        require_executors(spark)
        return spark

    with closing(open_control(dsn)) as conn, Heart(dsn) as heart:
        lock_pipeline(conn, pipeline.name)
        return run_locked(conn, heart, Runnable(pipeline, transform, session, tell), wait)


@dataclass(frozen=True, slots=True)
class Runnable:
    """A pipeline with its transform, its session of Spark, and a taker of lines of progress."""

    pipeline: Pipeline
    transform: Transform
    session: Callable[[], SparkSession]
    tell: Told


def run_locked(
    conn: Connection[Any], heart: Heart, what: Runnable, wait: Callable[[float], bool] | None
) -> int:
    """Run as run_pipeline(). Before: `conn` has the pipeline's lock."""
    name = what.pipeline.name
    with _noted(conn, name):
        register_pipeline(conn, what.pipeline)
        require_target(conn, what.pipeline)
        epoch = take_pipeline(conn, name)
        with heart.beating(name, epoch):
            return _Run(conn, what, epoch).loop(wait)


class _Run:
    """One run of a pipeline, which holds the pipeline's lock by its session."""

    def __init__(self, conn: Connection[Any], what: Runnable, epoch: int) -> None:
        self._pipeline = what.pipeline
        self._where = reached(conn)
        self._conn = conn
        self._spark = what.session()
        self._transform = what.transform
        self._tell = what.tell
        self._epoch = epoch
        self._target = target_of(what.pipeline, self._spark, self._where)
        self._kept: DataFrame | None = None  # in Spark's memory, for the present batch

    def loop(self, wait: Callable[[float], bool] | None) -> int:
        self._target.begin(self._conn)
        done = 0
        is_well = False
        while True:
            batch = next_batch(self._conn, self._pipeline, self._epoch)
            if batch.is_due:
                self._bring(batch)
                done += batch.events
            elif not is_well:
                note(self._conn, self._pipeline.name, None)
            is_well = True
            if not batch.is_due and wait is None:
                return done
            if wait is not None and not wait(0.0 if batch.is_due else _FIRST_POLL_S):
                return done

    def _bring(self, batch: MicroBatch) -> None:
        began_s = monotonic()
        try:
            try:
                self._target.bring(self._conn, batch, partial(self._frame, batch))
            except Exception as error:
                if not self._isolate(batch, error):
                    raise
                self._target.bring(self._conn, batch, partial(self._frame, batch))
        finally:
            if self._kept is not None:
                with suppress(Exception):  # Spark is lost, and its memory with it
                    self._kept.unpersist()
            self._kept = None
        redriven, bad = len(batch.aside.redriven), len(batch.aside.bad)
        what = f"{redriven:,} redriven" if redriven else f"{batch.events:,} events"
        self._tell(
            f"batch {batch.number}: {what} to {self._pipeline.target}"
            f"{f', {bad:,} of them bad' if bad else ''}, {monotonic() - began_s:.1f} s"
        )

    def _frame(self, batch: MicroBatch) -> DataFrame:
        """Return the batch's good events, transformed."""
        return self._transform(self._good(batch).select(*self._pipeline.columns))

    def _good(self, batch: MicroBatch) -> DataFrame:
        """Return the batch's events, without those that are known to be bad."""
        if not self._pipeline.looks_for_bad:
            return self._events(batch)
        if self._kept is None:
            self._kept = judged(self._events(batch), self._pipeline).persist()
        isolated = [Stretch(*place, place[-1]) for place in batch.aside.isolated]
        return outside(sift(self._kept, self._pipeline, batch.aside), isolated)

    def _events(self, batch: MicroBatch) -> DataFrame:
        if batch.aside.redriven:
            return frame_of(self._spark, self._pipeline, batch.aside.redriven)
        return self._read(batch)

    def _isolate(self, batch: MicroBatch, error: Exception) -> bool:
        """Find the events for which the batch was refused; tell whether there are any."""
        if self._pipeline.on_bad_row == "fail" or not is_of_a_value(error):
            return False
        good = self._good(batch)

        def refusal(some: Sequence[Stretch]) -> str | None:
            df = self._transform(inside(good, some).select(*self._pipeline.columns))
            try:
                probe(self._target, self._conn, df)
            except Exception as refused:
                if not is_of_a_value(refused):
                    raise
                return reason_of(refused)
            return None

        within = stretches(batch.start, batch.end)
        within = [Stretch(*each.place, each.offset) for each in batch.aside.redriven] or within
        for number, (event, why) in enumerate(isolate(within, refusal)):
            if number == ISOLATED_MAX:
                raise GaplessError(
                    f"more than {ISOLATED_MAX} events of the batch are refused one by one: name a "
                    f"check, by which they are found at once ({reason_of(error)})"
                ) from error
            place = event.topic, event.partition, event.first
            batch.aside.isolated.add(place)
            batch.aside.bad[place] = why
        return bool(batch.aside.isolated)

    def _read(self, batch: MicroBatch) -> DataFrame:
        options = read_of(self._pipeline, batch, self._where.dsn)
        return self._spark.read.format("gapless").options(**options).load()


def read_of(pipeline: Pipeline, batch: MicroBatch, dsn: str) -> dict[str, str]:
    """Return the options of the read of a batch.

    A partition that is new since the batch was fixed is in no position of it: it is not read.
    """
    assigned: dict[str, list[int]] = {}
    for end in batch.ends:
        assigned.setdefault(end.topic, []).append(end.partition_id)
    options = {
        "url": dsn,  # Spark redacts it
        "schema": schema(),
        "assign": json.dumps(assigned),
        "columns": ",".join(columns_to_read(pipeline)),
        "startingOffsets": json.dumps(to_json(batch.start)),
        "endingOffsets": json.dumps(to_json(batch.end)),
    }
    if pipeline.event_types:
        options["eventTypes"] = ",".join(pipeline.event_types)
    if pipeline.where is not None:
        options |= {"where": pipeline.where, "params": pipeline.params}
    return options


def load_transform(pipeline: Pipeline) -> Transform:
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


def _function(name: str, reference: str) -> Transform:
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
        try:
            made: DataFrame = found(df)
        except SystemExit as error:  # its thread would end, and nobody be told
            raise UsageError(
                f"pipeline {name}: {reference} called sys.exit({error.code!r}): let it raise"
            ) from error
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
    with suppress(psycopg.Error):  # a session that has ended: what it was raised for comes first
        note(conn, name, str(error)[:500])
