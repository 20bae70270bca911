"""The handlers of the replay tests: they write down what they see, and do what a payload says."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import dict_row

import gapless


@gapless.handler(topic="orders", group="billing", on_failure="park-key", retry_delays_s=[60])
def bill(unit: gapless.Unit, conn: Connection[Any]) -> None:
    for event in unit:
        conn.execute(
            "insert into handled (partition_id, c_offset, pid) values (%s, %s, %s)",
            [event.partition, event.offset, os.getpid()],
        )
        if event.payload == "refuse":
            raise ValueError("refused")
        if event.payload == "slow":
            time.sleep(0.05)
        if event.payload == "kill":
            os.kill(os.getpid(), signal.SIGKILL)


def _end(word: LiteralString) -> Callable[[Connection[Any]], None]:
    def end(conn: Connection[Any]) -> None:
        conn.execute(word)
        conn.execute("insert into handled (c_offset) values (-1)")

    return end


def _raise(error: Exception) -> None:
    raise error


DEEDS: dict[str, Callable[[Connection[Any]], object]] = {
    "publish": lambda conn: gapless.publish(conn, "orders", "from a handler", key="k"),
    "once": lambda conn: conn.execute("insert into once (word) values ('here')"),
    "deferred": lambda conn: conn.execute("insert into late (word) values ('here')"),
    "commit": _end("commit"),
    "rollback": _end("rollback"),
    "rows": lambda conn: setattr(conn, "row_factory", dict_row),
    "skip": lambda _: _raise(gapless.Skip()),
    "refuse": lambda _: _raise(ValueError("refused")),
}


@gapless.handler(topic="orders", group="odd", batch_size=3)
def odd(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Write each unit down, and do what the payload says, in the middle of it."""
    for event in unit:
        conn.execute(
            "insert into handled (partition_id, c_offset, pid) values (%s, %s, %s)",
            [event.partition, event.offset, os.getpid()],
        )
        deed = DEEDS.get(str(event.payload))
        if deed is not None:
            deed(conn)


@gapless.handler(topic="orders", group="odd", batch=True)
def odd_batch(batch: gapless.Batch, conn: Connection[Any]) -> None:
    for unit in batch:
        odd.function(unit, conn)


@gapless.handler(topic="orders", group="mail", delivery="at-least-once")
def mail(unit: gapless.Unit) -> None: ...


@gapless.handler(group="x")
def unnamed(unit: gapless.Unit, conn: Connection[Any]) -> None:
    bill.function(unit, conn)


@gapless.handler(topic="other", group="x")
def other(unit: gapless.Unit, conn: Connection[Any]) -> None: ...
