"""Handlers that tests of the Spark engine run in Spark's tasks, or as a task would."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

import gapless
from gapless.consume.user.handler import Handler
from gapless.forked import CAME_BACK


@gapless.handler(topic="outbox", group="on-spark", batch_size=20)
def note(unit: gapless.Unit, conn: Connection[Any]) -> None:
    """Write each event down, and do what its payload says, in the middle of a transaction."""
    for event in unit:
        conn.execute(
            "insert into effect (partition_id, c_offset, n) values (%s, %s, %s)",
            [event.partition, event.offset, event.payload["n"]],
        )
        if not comes_back(event.payload.get("fork")):
            act(event.payload, conn)


def made() -> list[Handler]:
    """Make handlers that only their groups and topics tell apart: each function has the same name."""

    def make(topic: str, group: str | None) -> Handler:
        @gapless.handler(topic=topic, group=group)
        def handle(unit: gapless.Unit, conn: Connection[Any]) -> None:
            note(unit, conn)

        return handle

    return [make(topic, group) for topic in ("outbox", "other") for group in (None, "b")]


def act(payload: Any, conn: Connection[Any]) -> None:
    """Kill: this process, once; flaky: an error that passes, once; the others: always."""
    if _is_first(payload.get("kill")):
        os.kill(os.getpid(), signal.SIGKILL)
    if _is_first(payload.get("flaky")):
        raise psycopg.errors.SerializationFailure("it will pass")
    if payload.get("terminate"):
        conn.execute("select pg_terminate_backend(pg_backend_pid())")
    if payload.get("hang"):
        time.sleep(3600)
    if payload.get("bad"):
        raise ValueError("refused")


def comes_back(how: str | None) -> bool:
    """Fork: a child that comes back from the handler is ended, whether it returns or raises."""
    pid = os.fork() if how else os.getpid()
    if pid == 0 and how == "raises":
        raise ValueError("in a child")
    if how and pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == CAME_BACK
    return pid == 0


def _is_first(marker: str | None) -> bool:
    if marker is None or Path(marker).exists():
        return False
    Path(marker).touch()
    return True
