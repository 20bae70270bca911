"""The handlers of short runs: they write down every unit, refuse poison, and do what an event tells them.

An event's payload is an object. "poison": true, and the unit is refused. "kill", "rollback", "commit",
"deadlock" (a path: the first two tries of each partition have one), "again" (the first attempt asks for
another one): done after the unit was written down, in the transaction of its batch.
"""

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any

from psycopg import Connection

from chaos.effects import write_effects
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.wish import Retry
from gapless.log.event import Event

DEADLOCKS = 2  # a step tries a unit twice


def make_handler(group: str, topic: str) -> Handler:
    """Make the handler of a group."""

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        write_effects(group, unit, conn)
        for event in unit:
            _act(event, unit.attempt, conn)

    return Handler(function=handle, topic=topic, group=group)


def _act(event: Event, attempt: int, conn: Connection[Any]) -> None:
    payload: dict[str, Any] = event.payload
    for word, deed in _DEEDS.items():
        if payload.get(word):
            deed(payload[word], conn)
    if payload.get("again") and attempt == 1:
        raise Retry(after=0)
    if path := payload.get("deadlock"):
        _deadlock(f"{path}-{event.partition}", conn)


def _deadlock(path: str, conn: Connection[Any]) -> None:
    for number in range(DEADLOCKS):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(f"{path}-{number}", os.O_CREAT | os.O_EXCL))
            conn.execute("do $$ begin raise deadlock_detected; end $$")


def _refuse(_: object, __: Connection[Any]) -> None:
    raise ValueError("poison")


_DEEDS: dict[str, Callable[[Any, Connection[Any]], object]] = {
    "kill": lambda *_: os.kill(os.getpid(), signal.SIGKILL),
    "rollback": lambda _, conn: conn.execute("rollback"),
    "commit": lambda _, conn: conn.execute("commit"),
    "poison": _refuse,
}
