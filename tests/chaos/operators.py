"""What people do to dead letters, two of them at once: `gapless dlq`, as they would call it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

import psycopg

from chaos.arena import Arena, fault
from chaos.history import Asked
from chaos.process import environment

UNITS_MAX = 8
LOOK_S = 0.05
COMMAND_S = 30.0
TRIES_MAX = 4  # a command that met a fault is given again, as people do
# Some that others are parked behind, and some that were mended since they died.
_PLACES = """
select d.group_id || '/' || t.name || '/' || d.partition_id || '/' || d.first_offset
from gapless.dead_letter d join gapless.topic t using (topic_id)
where d.state = 'dead'
order by d.parks and random() < 0.6 desc, not exists (
  select from gapless.dead_letter_event e
  where (e.group_id, e.topic_id, e.partition_id, e.first_offset)
      = (d.group_id, d.topic_id, d.partition_id, d.first_offset)
    and e.payload ->> 'do' = 'mend'
), d.died_ts
limit 30
"""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at a keyboard, who waits for a command to end."""

    verb: str
    popen: subprocess.Popen[str]


@fault
def redrive_twice(arena: Arena) -> Iterator[float]:
    """Two people have the same dead letters handled again."""
    yield from _ask(arena, "redrive_twice", ("redrive", "redrive"))


@fault
def discard_twice(arena: Arena) -> Iterator[float]:
    """Two people give the same dead letters up."""
    yield from _ask(arena, "discard_twice", ("discard", "discard"))


@fault
def redrive_and_discard(arena: Arena) -> Iterator[float]:
    """One wants them handled again, another one gives them up."""
    yield from _ask(arena, "redrive_and_discard", ("redrive", "discard"))


def _ask(arena: Arena, kind: str, verbs: Sequence[str]) -> Iterator[float]:
    places = _choose(arena)
    if not places:
        return
    arena.note(kind, " ".join(places))
    people = [_start(arena, verb, places) for verb in verbs]
    together = uuid4().hex
    for tries in range(1, TRIES_MAX + 1):
        until_s = time.monotonic() + COMMAND_S
        while any(_is_at_it(person) for person in people) and time.monotonic() < until_s:
            yield LOOK_S
        refused = [person.verb for person in people if not _record(arena, person, together)]
        if not refused or tries == TRIES_MAX:
            break
        people = [_start(arena, verb, places) for verb in refused]
    arena.note_end(kind, " ".join(places))


def _is_at_it(person: Person) -> bool:
    with suppress(subprocess.TimeoutExpired):
        person.popen.wait(0.01)  # when the run ends, nobody else makes a pause
    return person.popen.poll() is None


def _choose(arena: Arena) -> list[str]:
    with suppress(psycopg.Error):
        places = [row[0] for row in arena.scene.admin().execute(_PLACES).fetchall()]
        return arena.random.sample(places, k=min(len(places), UNITS_MAX))
    return []


def _start(arena: Arena, verb: str, places: list[str]) -> Person:
    reason = ["--reason", "chaos"] if verb == "discard" else []
    popen = subprocess.Popen(
        [sys.executable, "-m", "gapless", "dlq", verb, *reason, "--json", *places],
        env=environment() | {"GAPLESS_DSN": arena.scene.operator_dsn},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return Person(verb, popen)


def _record(arena: Arena, person: Person, together: str) -> bool:
    """Write down what a person was told, and tell whether it was an answer; who waits too long gives up."""
    if person.popen.poll() is None:
        person.popen.kill()
    told, complaint = person.popen.communicate()
    units: dict[str, str] = json.loads(told)["units"] if person.popen.returncode == 0 else {}
    arena.writer.write(
        Asked(
            verb=person.verb,
            together=together if person.popen.returncode == 0 else uuid4().hex,  # it asks again
            code=person.popen.returncode,
            said=complaint.strip()[-500:],
            units=tuple(units.items()),
        )
    )
    return person.popen.returncode == 0
