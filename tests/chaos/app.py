"""The handlers of a run: they write down every unit, refuse poison, and do what an event tells them.

An event's payload is an object. "poison": true, and the unit is refused. "sleep_s", "kill", "exit":
done after the unit was written down, in the transaction of its batch.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from psycopg import Connection

from chaos.effects import write_effects
from chaos.history import Handling, Writer
from gapless.consume.handler import Handler
from gapless.consume.unit import Unit


def make_handler(group: str, topic: str, writer: Writer | None = None) -> Handler:
    """Make the handler of a group; with a writer it says when it begins and ends a unit."""

    def handle(unit: Unit, conn: Connection[Any]) -> None:
        _say(writer, group, unit, "begin")
        write_effects(group, unit, conn)
        for event in unit:
            _act(event.payload)
        _say(writer, group, unit, "end")

    return Handler(function=handle, topic=topic, group=group)


def _act(payload: dict[str, Any]) -> None:
    for word, value in payload.items():
        if value and word in _DEEDS:
            _DEEDS[word](value)


def _refuse(_: object) -> None:
    raise ValueError("poison")


_DEEDS: dict[str, Callable[[Any], object]] = {
    "poison": _refuse,
    "sleep_s": time.sleep,
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "exit": os._exit,
}


def _say(writer: Writer | None, group: str, unit: Unit, phase: Any) -> None:
    if writer is not None:
        writer.write(
            Handling(
                group=group,
                topic=unit.topic,
                partition=unit.partition,
                first_offset=unit.first_offset,
                phase=phase,
            )
        )
