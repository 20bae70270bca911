"""Several pipelines in one driver: each is a thread with a lease, and all share one Spark.

A pipeline that fails is tried again, with growing waits. Meanwhile any other instance may take it
over: its lock is free as soon as a try has failed. An instance that does not get the lock stands
by, and takes over when the session of the run ends, or gives no sign of life.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import Connection

from gapless.errors import ConnectError, GaplessError, UnreachableError, one_line
from gapless.features.spark.pipeline.document import Pipeline
from gapless.features.spark.pipeline.lease import (
    Heart,
    lock_pipeline,
    runner_of,
    standing_by,
    try_lock_pipeline,
    unlock_pipeline,
)
from gapless.features.spark.pipeline.position import note
from gapless.features.spark.pipeline.run import Runnable, Told, load_transform, run_locked
from gapless.features.spark.pipeline.sessions import SharedSpark
from gapless.features.spark.pipeline.target import require_target_package
from gapless.features.spark.session import explained
from gapless.features.spark.standby import open_control
from gapless.ops.text import quantity
from gapless.worker.retries import Retries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("gapless.spark")

LOOK_S = 1.0  # an instance that stands by tries so often
RETRY_S_MIN, RETRY_S_MAX = 1.0, 30.0
LOST = "Spark's JVM has ended: another one is started"


class Stop:
    """Requests to stop, which a signal handler may make."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.requests = 0

    def request(self) -> None:
        """Ask to stop; a second request ends the drain."""
        self.requests += 1
        self._event.set()

    def is_asked(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep so long at most; return False when asked to stop."""
        return not self._event.wait(seconds)


class Fleet:
    """Runs pipelines, each once in all instances."""

    def __init__(
        self,
        pipelines: Sequence[Pipeline],
        dsn: str,
        *,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        tell: Told,
    ) -> None:
        """Raise UsageError for a transform or a package that cannot be had: no try mends that."""
        self._dsn = dsn
        self._say = tell
        self._spark = SharedSpark(pipelines, master, conf or {})
        self._runnable = [self._prepared(each) for each in pipelines]
        self._open: dict[str, Connection[Any]] = {}
        self._started: Callable[[], None] = lambda: None

    def stay(self, stop: Stop, *, drain_s: float) -> None:
        """Run until told to stop; then end the present batches, for at most drain_s.

        A batch that is cut off is run again, by the next instance. Raises ConnectError or
        SchemaError for a database that no waiting would mend.
        """
        with suppress(UnreachableError), closing(open_control(self._dsn)):
            pass
        with Heart(self._dsn) as heart:
            threads = self._threads(lambda each: self._stay(each, heart, stop))
            try:
                while stop.wait(LOOK_S):
                    self._spark.watch()
                give_up_s = monotonic() + drain_s
                while _alive(threads) and stop.requests < 2 and monotonic() < give_up_s:
                    threads[-1].join(0.1)
                    threads = _alive(threads)
            finally:
                self._end(_alive(threads))

    def once(self, started: Callable[[], None] = lambda: None) -> dict[str, GaplessError]:
        """Run each up to the present events, all at a time; return the errors by their names.

        started: called when Spark has started, for each.
        """
        errors: dict[str, GaplessError] = {}
        self._started = started
        with Heart(self._dsn) as heart:
            threads = self._threads(lambda each: self._once(each, heart, errors))
            try:
                for thread in threads:
                    thread.join()
            finally:
                self._end(_alive(threads))
        return errors

    def _prepared(self, pipeline: Pipeline) -> Runnable:
        require_target_package(pipeline)
        return Runnable(
            pipeline,
            load_transform(pipeline),
            lambda: self._session(pipeline),
            lambda line: self._say(f"{pipeline.name}: {line}"),
        )

    def _session(self, pipeline: Pipeline) -> SparkSession:
        session = self._spark.session(pipeline)
        self._started()
        return session

    def _threads(self, run: Callable[[Runnable], None]) -> list[threading.Thread]:
        threads = [
            threading.Thread(target=run, args=(each,), name="gapless-pipeline", daemon=True)
            for each in self._runnable
        ]
        for thread in threads:
            thread.start()
        return threads

    def _end(self, alive: list[threading.Thread]) -> None:
        """Let go of all: without their sessions, runs that are cut off can commit nothing."""
        if alive:
            for conn in list(self._open.values()):
                conn.close()
        self._spark.close(0.0) if alive else self._spark.close()

    def _once(self, what: Runnable, heart: Heart, errors: dict[str, GaplessError]) -> None:
        name = what.pipeline.name
        try:
            with closing(open_control(self._dsn)) as conn:
                self._open[name] = conn
                lock_pipeline(conn, name)
                what.tell(quantity(run_locked(conn, heart, what, None), "event"))
        except Exception as error:  # noqa: BLE001 - as below
            errors[name] = _plain(error)

    def _stay(self, what: Runnable, heart: Heart, stop: Stop) -> None:
        name = what.pipeline.name
        retries = Retries(RETRY_S_MAX)

        def wait(seconds: float) -> bool:
            retries.succeeded()
            return stop.wait(seconds)

        while not stop.is_asked():
            try:
                with closing(open_control(self._dsn)) as conn:
                    self._open[name] = conn
                    if not self._is_ours(conn, what, stop):
                        return
                    try:
                        run_locked(conn, heart, what, wait)
                    except Exception as error:
                        if conn.closed:
                            raise
                        with standing_by(conn, name):
                            _rest(what, retries, self._why(conn, name, error), stop)
            except Exception as error:  # noqa: BLE001 - no other code would see the thread end
                _rest(what, retries, one_line(_plain(error)), stop)

    def _is_ours(self, conn: Connection[Any], what: Runnable, stop: Stop) -> bool:
        """Stand by until the pipeline's lock is ours; False when told to stop."""
        name, told = what.pipeline.name, False
        with standing_by(conn, name):
            while not stop.is_asked():
                if try_lock_pipeline(conn, name):
                    return True
                if not told:
                    what.tell(f"stands by, {runner_of(conn, name) or 'another one'} runs it")
                    told = True
                stop.wait(LOOK_S)
        return False

    def _why(self, conn: Connection[Any], name: str, error: Exception) -> str:
        """Note for status why a try failed, give the lock to others, and return the reason."""
        lost = self._spark.is_lost()
        why = LOST if lost else one_line(_plain(error))
        if lost:
            note(conn, name, why)
        unlock_pipeline(conn, name)
        return why


def _rest(what: Runnable, retries: Retries, why: str, stop: Stop) -> None:
    if stop.is_asked():
        return
    wait_s = max(RETRY_S_MIN, retries.failed())
    what.tell(f"stands still, tried again in {wait_s:.0f} s: {why}")
    stop.wait(wait_s)


def _alive(threads: Sequence[threading.Thread]) -> list[threading.Thread]:
    return [thread for thread in threads if thread.is_alive()]


def _plain(error: Exception) -> GaplessError:
    if isinstance(error, GaplessError):
        return error
    if isinstance(error, psycopg.Error):
        return ConnectError(f"the database: {one_line(error)}")
    return explained(error)
