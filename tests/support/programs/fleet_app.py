"""The handlers of the tests: they write down the events, and follow the orders in them.

An event's payload is an object. "sleep_s", "raise", "hang", "hang_in_c", "kill", "exit", "segv",
"stop", "interrupt", "sql": done after the event was written down, in the transaction of its batch. "once": a
file's path; only the process that makes the file does it. "attempts": [first, last], only then;
in other attempts "else" holds.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

from gapless.consume.unit import Unit

WRITE_DOWN = """
insert into ledger (group_id, topic, partition_id, c_offset, epoch, pid)
select %(group)s, %(topic)s, %(partition)s, %(offset)s, c.epoch, %(pid)s
from gapless.consumer_offsets c
join gapless.topic t on t.topic_id = c.topic_id and t.name = %(topic)s
where c.group_id = %(group)s and c.partition_id = %(partition)s
"""
CALLED = """
insert into called (partition_id, c_offset, idempotency_key, attempt)
values (%(partition)s, %(offset)s, %(key)s, %(attempt)s)
"""
ENDED = """
update called set ended = clock_timestamp()
where partition_id = %s and c_offset = %s and attempt = %s
"""
HANG_S = 3600.0

print(f"handlers imported by {os.getpid()}", flush=True)  # noqa: T201 - once, before any fork


def recorder(group: str) -> Callable[[Unit, Connection[Any]], None]:
    """Make the handler of a group."""

    def record(unit: Unit, conn: Connection[Any]) -> None:
        for event in unit:
            conn.execute(
                WRITE_DOWN,
                {
                    "group": group,
                    "topic": event.topic,
                    "partition": event.partition,
                    "offset": event.offset,
                    "pid": os.getpid(),
                },
            )
            payload: dict[str, Any] = event.payload or {}
            first, last = payload.get("attempts", (1, 1_000_000))
            deed = payload if first <= unit.attempt <= last else payload.get("else", {})
            if "once" not in deed or _first(deed["once"]):
                _act(deed, conn)

    return record


def caller(group: str, dsn: str) -> Callable[[Unit], None]:
    """Make the at-least-once handler of a group: it writes down every call, on its own session."""

    def record(unit: Unit) -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            for event in unit:
                conn.execute(
                    CALLED,
                    {
                        "offset": event.offset,
                        "partition": event.partition,
                        "key": unit.idempotency_key,
                        "attempt": unit.attempt,
                    },
                )
                payload: dict[str, Any] = event.payload or {}
                first, last = payload.get("attempts", (1, 1_000_000))
                _act(payload if first <= unit.attempt <= last else {}, conn)
                conn.execute(ENDED, [event.partition, event.offset, unit.attempt])

    return record


def _act(payload: dict[str, Any], conn: Connection[Any]) -> None:
    for word, value in payload.items():
        if word == "raise":
            raise ValueError(value)
        if word == "sql":
            conn.execute(value)
        if word in _DEEDS:
            _DEEDS[word](value)


def _first(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _count(path: str) -> None:
    with Path(path).open("a") as file:
        file.write(".")


def _wait_for(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.01)


def _interrupt(_: object) -> None:
    raise KeyboardInterrupt


_DEEDS: dict[str, Callable[[Any], object]] = {
    "count": _count,
    "wait_for": _wait_for,
    "sleep_s": time.sleep,
    "hang": lambda _: time.sleep(HANG_S),
    "hang_in_c": lambda _: ctypes.PyDLL(None).sleep(int(HANG_S)),  # no other thread runs meanwhile
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "exit": os._exit,
    "segv": lambda _: ctypes.string_at(0),
    "interrupt": _interrupt,
    "stop": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "print": print,
}
