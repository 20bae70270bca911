"""Metrics of programs on Spark: the log's for a pipeline, the lag of queries for a program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from socket import socket
from threading import Thread

import psycopg

from gapless.db.connect import connect
from gapless.errors import ConnectError, UsageError
from gapless.features.metrics.collect import Found, found_in, write
from gapless.features.metrics.look import DatabaseLook
from gapless.features.metrics.looks import Looks
from gapless.features.metrics.serve import HttpServer, Reply, open_metrics
from gapless.features.spark.lag import LagWatch

_CONNECT_S_MAX = 5


@contextmanager
def log_served(
    address: str | None, dsn: str, without: Callable[[str], object] | None = None
) -> Iterator[int | None]:
    """Serve the log's metrics while the block runs; yield the port. None: they are served nowhere.

    Every group's lag is among them, a pipeline's too. When the address cannot be used, or the extra
    for metrics is not installed, `without` gets the reason; without it, UsageError is raised.
    """
    try:
        listening = None if address is None else open_metrics(address)
    except UsageError as error:
        if without is None:
            raise
        without(str(error))
        listening = None
    if listening is None:
        yield None
        return
    looks = Looks(partial(connect, dsn, role="exporter", connect_timeout_s=_CONNECT_S_MAX))

    def found() -> Found:
        look = looks.newest()
        if isinstance(look, DatabaseLook):
            return {"gapless_database_up": {(): 1.0}, **found_in(look, (), None)}
        return {"gapless_database_up": {(): 0.0}}

    server = _serve(listening, found)
    try:
        yield int(server.server_address[1])
    finally:
        end(server)
        looks.close()


def serve_lag(address: str, watch: LagWatch) -> HttpServer:
    """Serve the lag of queries at an address. Raises UsageError as above."""

    def found() -> Found:
        try:
            lags = watch.lags()
        except (psycopg.Error, ConnectError):
            return {"gapless_database_up": {(): 0.0}}
        each_one = [
            ((lag.query, each.topic, str(each.partition)), each)
            for lag in lags
            for each in lag.partitions
        ]
        return {
            "gapless_database_up": {(): 1.0},
            "gapless_query_lag_events": {labels: each.events for labels, each in each_one},
            "gapless_query_lag_seconds": {
                labels: each.seconds for labels, each in each_one if each.seconds is not None
            },
        }

    return _serve(open_metrics(address), found)


def end(server: HttpServer) -> None:
    """End a server, and its socket."""
    server.shutdown()
    server.server_close()


def _serve(listening: socket, found: Callable[[], Found]) -> HttpServer:
    def metrics(accept: str) -> Reply:
        return Reply(200, *write(found(), accept, only_found=True))

    server = HttpServer(listening, {"/metrics": metrics})
    Thread(target=server.serve_forever, name="gapless metrics", daemon=True).start()
    return server
