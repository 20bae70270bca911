"""What an event makes its handlers do: the "do" of its payload, in every group.

For good, so that the unit is dead in the end: raise · dead (gapless.DeadLetter) · kill, exit, abort
(the process ends itself) · hang (for longer than maxProcessingMs) · stuck (the same in C code that
keeps the interpreter: only the supervisor's kill helps). Under onFailure block nothing would pass
such a unit: there it is mended after some calls.
For a while, so that it is handled in the end: mend (raises until it is mended) · again
(gapless.Retry) · flaky (an error of the environment) · cut (the session is lost) · slow.
skip: gapless.Skip, nothing is kept of it.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from typing import Any, NoReturn

import psycopg
from psycopg import Connection

import gapless
from chaos.history import Grouped
from gapless import Event, Unit

KILLERS = ("kill", "exit", "abort", "hang", "stuck")
DEADLY = frozenset({"raise", "dead", *KILLERS})
PASSING = ("mend", "again", "flaky", "cut", "slow")
ALL = ("raise", "dead", "skip", *PASSING, *KILLERS)
HANG_S = 3600
SLOW_S = 0.15
AGAIN_S = 0.4
AGAIN_ATTEMPTS = 2
EXIT_CODE = 7
MENDED_CALLS = 2  # a step tries a unit twice; then the first retry is good
BLOCKED_CALLS = 3
BLOCKED_KILLS = 5  # the first of them is not counted: more than maxCrashes


class Refused(Exception):  # noqa: N818 - what a handler raises by mistake
    """The handler's own error."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where an event is being handled; folder: where it is remembered how often."""

    folder: Path
    group: Grouped
    unit: Unit
    conn: Connection[Any] | None  # None: an at-least-once handler has none

    def first(self, tag: object, times: int) -> bool:
        """Tell whether this is one of the first calls for an event; survives any death."""
        name = md5(f"{self.group.group} {tag}".encode(), usedforsecurity=False).hexdigest()
        for number in range(times):
            try:
                os.close(os.open(self.folder / f"{name}-{number}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False


def deeds(unit: Unit) -> list[str]:
    """Return what the events of a unit do, in their order."""
    return [deed for event in unit if (deed := event.payload.get("do"))]


def act(stage: Stage, event: Event) -> None:
    """Do what an event says."""
    deed = event.payload.get("do")
    if deed is None:
        return
    blocks = stage.group.on_failure == "block" and deed in DEADLY - {"dead"}
    calls = BLOCKED_KILLS if deed == "kill" else BLOCKED_CALLS
    if not blocks or stage.first(event.event_type, calls):
        _DEEDS[deed](stage, event)


def _refuse(_: Stage, event: Event) -> NoReturn:
    raise Refused(f"poison {event.event_type}")


def _refuse_until_mended(stage: Stage, event: Event) -> None:
    if stage.first(event.event_type, MENDED_CALLS):
        raise Refused(f"not mended yet: {event.event_type}")


def _again(stage: Stage, _: Event) -> None:
    if stage.unit.attempt <= AGAIN_ATTEMPTS:
        raise gapless.Retry("again", after=AGAIN_S)


def _die(_: Stage, event: Event) -> NoReturn:
    raise gapless.DeadLetter(f"dead, says the handler of {event.event_type}")


def _skip(_: Stage, event: Event) -> NoReturn:
    raise gapless.Skip(f"skip {event.event_type}")


def _flaky(stage: Stage, event: Event) -> None:
    if stage.first(event.event_type, 1):
        raise psycopg.errors.SerializationFailure("could not serialize, says the handler")


def _cut(stage: Stage, event: Event) -> None:
    if not stage.first(event.event_type, 1):
        return
    if stage.conn is None:
        raise psycopg.OperationalError("connection lost, says the handler")
    stage.conn.execute("select pg_terminate_backend(pg_backend_pid())")


def _stuck(*_: object) -> None:
    ctypes.PyDLL(None).sleep(HANG_S)  # a PyDLL keeps the interpreter for itself


_DEEDS: dict[str, Callable[[Stage, Event], object]] = {
    "raise": _refuse,
    "mend": _refuse_until_mended,
    "again": _again,
    "dead": _die,
    "skip": _skip,
    "flaky": _flaky,
    "cut": _cut,
    "slow": lambda *_: time.sleep(SLOW_S),
    "kill": lambda *_: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda *_: os._exit(EXIT_CODE),
    "abort": lambda *_: os.abort(),
    "hang": lambda *_: time.sleep(HANG_S),
    "stuck": _stuck,
}
