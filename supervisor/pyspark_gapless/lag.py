"""The listener of streaming queries in PySpark's classes, over gapless.features.spark.lag."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from gapless.features.spark.lag import LagWatch, QueryLag

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )


class LagListener(StreamingQueryListener):
    """Watch the lag of all queries of a session that read a log.

        spark.streams.addListener(LagListener(metrics="127.0.0.1:9464"))

    url: the database; None: the one that a read without the option url reads. told: gets the
    QueryLag of each progress. metrics: an address at which Prometheus reads
    gapless_query_lag_events and gapless_query_lag_seconds. Raises UsageError when the address
    cannot be used.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        told: Callable[[QueryLag], object] | None = None,
        metrics: str | None = None,
    ) -> None:
        self._watch = LagWatch(url, told)
        self._names: dict[str, str] = {}  # by the id of a run
        self._server = None
        if metrics is not None:
            from gapless.features.spark.exporter import serve_lag

            self._server = serve_lag(metrics, self._watch)

    @property
    def port(self) -> int | None:
        """Return the port of the metrics; None: they are served nowhere."""
        return None if self._server is None else int(self._server.server_address[1])

    def lags(self) -> list[QueryLag]:
        """Return the present lag of the queries that run. Raises psycopg.Error, ConnectError."""
        return self._watch.lags()

    def close(self) -> None:
        """End the session with the database, and the server of metrics."""
        self._watch.close()
        if self._server is not None:
            from gapless.features.spark.exporter import end

            end(self._server)
            self._server = None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's
        self._names[str(event.runId)] = event.name or str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's
        progress = event.progress
        name = self._names.setdefault(str(progress.runId), progress.name or str(progress.id))
        self._watch.note(name, [source.endOffset for source in progress.sources])

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's
        """Do nothing: the position stays, and metrics ask the log."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's
        self._watch.forget(self._names.pop(str(event.runId), ""))
