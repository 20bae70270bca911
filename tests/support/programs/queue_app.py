"""Handlers of queue groups that follow the orders in events; the table `done` has their effects."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

import gapless

WRITE = """
insert into done (n, topic, attempt, pid) values (%s, %s, %s, %s)
"""
MAKE = """
create table done (
  n int, topic text, attempt int, pid int, at timestamptz default clock_timestamp()
)
"""
ON_FAILURE: Any = os.environ.get("ON_FAILURE", "dead-letter")
DELAYS_S = [float(word) for word in os.environ.get("DELAYS_S", "0.1").split(",")]
BATCH = int(os.environ.get("BATCH", "10"))


def do(payload: dict[str, Any], attempt: int) -> None:
    """Sleep, and then act as the event orders for this attempt."""
    time.sleep(payload.get("sleep", 0))
    what = payload.get("do")
    if what is None or attempt > payload.get("times", 1_000):
        return
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    refuse(what, payload, attempt)
    if what in ("hang", "retry, then hang"):
        Path(os.environ["PIDS"], str(payload["n"])).write_text(str(os.getpid()))
        time.sleep(600)


def refuse(what: str, payload: dict[str, Any], attempt: int) -> None:
    """Raise the error that the event orders, if any."""
    if what == "fail":
        raise ValueError("as it says")
    if what == "retry":
        raise gapless.Retry("later", after=payload.get("after", 0.1))
    if what == "reject":
        raise gapless.DeadLetter("bad address")
    if what == "skip":
        raise gapless.Skip
    if what == "retry, then hang" and attempt == 1:
        raise gapless.Retry("later", after=0.1)


@gapless.handler(
    topic="jobs",
    group="once",
    mode="queue",
    batch_size=BATCH,
    on_failure=ON_FAILURE,
    retry_delays_s=DELAYS_S,
)
def once(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Write, then act: a failure undoes the write."""
    (event,) = unit
    payload = event.payload
    values = [payload["n"], event.topic, unit.attempt, os.getpid()]
    conn.execute(WRITE, values)
    if payload.get("do") == "commit":
        conn.execute("commit")
    do(payload, unit.attempt)


@gapless.handler(topic=["urgent", "jobs"], group="preferred", mode="queue", batch_size=BATCH)
def preferred(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Do as once(), for two topics."""
    once.function(unit, conn)


@gapless.handler(
    topic="jobs",
    group="outside",
    mode="queue",
    batch_size=BATCH,
    delivery="at-least-once",
    concurrency=int(os.environ.get("CONCURRENCY", "4")),
    visibility_s=float(os.environ.get("VISIBILITY_S", "5")),
    on_failure=ON_FAILURE,
    retry_delays_s=DELAYS_S,
)
def outside(unit: gapless.Unit) -> None:
    """Write on a session of its own, before acting: so each call is seen."""
    (event,) = unit
    payload = event.payload
    with psycopg.connect(os.environ["DSN"], autocommit=True) as own:
        values = [payload["n"], event.topic, unit.attempt, os.getpid()]
        own.execute(WRITE, values)
    do(payload, unit.attempt)


@gapless.handler(topic="jobs", group="ordered")
def ordered(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Keep the order, beside the queues."""
    for event in unit:
        conn.execute(WRITE, [event.payload["n"], "ordered", unit.attempt, os.getpid()])
