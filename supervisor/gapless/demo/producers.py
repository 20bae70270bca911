"""The producers: processes that publish their share of the flights, one transaction a flight."""

from __future__ import annotations

import os
import signal
from time import monotonic, sleep
from typing import Any

import multiprocess
import psycopg

from gapless.demo.flights import flights
from gapless.log.event import NewEvent
from gapless.log.publish import publish

PRODUCERS = 3
_CONTEXT = multiprocess.get_context("fork")


def start_producers(dsn: str, limit: int | None, flights_per_s: float) -> list[Any]:
    """Fork the producers; together they publish `flights_per_s` (0: as fast as they can)."""
    began = monotonic()
    producers = [
        _CONTEXT.Process(target=_publish_share, args=(dsn, limit, flights_per_s, share, began))
        for share in range(PRODUCERS)
    ]
    for producer in producers:
        producer.start()
    return producers


def _publish_share(
    dsn: str, limit: int | None, flights_per_s: float, share: int, began: float
) -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # sent to all: the demo ends us
        signal.signal(each, signal.SIG_IGN)
    module = flights("flights")
    with psycopg.connect(dsn, autocommit=True) as conn:
        for number, flight in enumerate(module.read_flights(limit)):
            if number % PRODUCERS != share:
                continue
            if flights_per_s:
                sleep(max(0.0, began + number / flights_per_s - monotonic()))
            if os.getppid() == 1:
                return  # the demo itself was killed
            with conn.transaction():
                publish(conn, "flights", [_event(flight, e) for e in module.events_of(flight)])


def _event(flight: Any, event: dict[str, Any]) -> NewEvent:
    return NewEvent(
        **event,
        key=flight.key,
        host_id=flight.host_id,
        user_id=flight.user_id,
        transaction_id=flight.transaction_id,
    )
