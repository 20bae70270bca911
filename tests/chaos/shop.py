"""The handlers of a run: two groups that write down what they are given, and do what it says.

A payload's "do": raise, kill (its process), hang (beyond maxProcessingMs): always, so it is to be
dead-lettered in the end · flaky: an error of the environment, once a process · slow.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection

import gapless
from chaos.effects import write_effects
from chaos.history import Handling, Writer
from gapless import Unit

TOPIC = "orders"
HANG_S = 3600.0
SLOW_S = 0.15

_writer = Writer(Path(os.environ["CHAOS_FOLDER"]), "worker")
_seen: set[tuple[str, int, int]] = set()


@gapless.handler(topic=TOPIC, group="billing")
def bill(unit: Unit, conn: Connection[Any]) -> None:
    handle("billing", unit, conn)


@gapless.handler(topic=TOPIC, group="audit")
def audit(unit: Unit, conn: Connection[Any]) -> None:
    handle("audit", unit, conn)


def handle(group: str, unit: Unit, conn: Connection[Any]) -> None:
    note(group, unit, "begin")
    try:
        write_effects(group, unit, conn)
        for event in unit:
            deed = event.payload.get("do")
            if deed is not None:
                act(deed, (group, unit.partition, event.offset))
    finally:
        note(group, unit, "end")


def act(deed: str, place: tuple[str, int, int]) -> None:
    if deed == "raise":
        raise ValueError(f"poison at {place}")
    if deed == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif deed == "hang":
        time.sleep(HANG_S)
    elif deed == "slow":
        time.sleep(SLOW_S)
    elif deed == "flaky" and place not in _seen:
        _seen.add(place)
        raise psycopg.errors.SerializationFailure("could not serialize, says the handler")


def note(group: str, unit: Unit, phase: Any) -> None:
    _writer.write(
        Handling(
            group=group,
            topic=unit.topic,
            partition=unit.partition,
            first_offset=unit.first_offset,
            phase=phase,
        )
    )
