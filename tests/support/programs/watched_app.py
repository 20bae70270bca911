"""Handlers that note their calls in a file, publish, and act as payloads order."""

import logging
import os
import time

import psycopg

import gapless

log = logging.getLogger("shop.billing")


def note(word: str) -> None:
    with open(os.environ["CALLS"], "a") as calls:  # noqa: PTH123 - one write a line, from several processes
        calls.write(f"{word}\n")


@gapless.handler(
    topic="orders",
    group="billing",
    on_failure=os.environ.get("ON_FAILURE", "dead-letter"),  # type: ignore[arg-type]
    retry_delays_s=(3600,),
)
def bill(unit: gapless.Unit, conn: psycopg.Connection) -> None:
    log.info("billing")
    for event in unit:
        time.sleep(event.payload.get("slow_s", 0))
        if event.payload.get("bad"):
            note("bad")
            raise ValueError("a bad order")
        gapless.publish(conn, "paid", {"of": event.payload["n"]})
        note("good")
