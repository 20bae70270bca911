"""What people do to dead letters, two of them at once: `gapless dlq`, as they would call it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

import psycopg

from chaos.arena import Arena, fault
from chaos.history import Asked
from chaos.process import environment
from support.patience import bounded_patience

UNITS_MAX = 8
LOOK_S = 0.05
COMMAND_S = 30.0  # on a quiet machine
TRIES_MAX = (
    5  # two that a fault, or other people, kept apart; so a run of two minutes sees them meet
)
LOOKS_MAX = 30  # for dead letters, when a run is young
NONE_YET_S = 1.0
_DID = {"redrive": "asked", "discard": "discarded"}
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


class Meeting:
    """Makes people act in the same moment: nobody acts before all have looked (chaos.person)."""

    def __init__(self) -> None:
        self._looked, self.looks = os.pipe()
        self.waits, self._go = os.pipe()
        os.set_blocking(self._looked, False)
        self._is_on = False

    def seat(self) -> None:
        """Leave one end of each pipe to those that were started."""
        os.close(self.looks)
        os.close(self.waits)

    def look_on(self) -> None:
        """Let them act as soon as each has looked, or has ended: then its end of the pipe is closed."""
        with suppress(BlockingIOError):
            if not self._is_on and os.read(self._looked, 1) == b"":
                self.close()

    def close(self) -> None:
        if not self._is_on:
            self._is_on = True
            os.close(self._looked)
            os.close(self._go)


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
    """Have people meet on some units; where faults came between them, on others, a few times."""
    tries = 0
    for _ in range(LOOKS_MAX):
        places = _choose(arena)
        if not places:
            yield NONE_YET_S
            continue
        arena.note(kind, " ".join(places))
        have_met = yield from _meet(arena, verbs, places)
        arena.note_end(kind, " ".join(places))
        tries += 1
        if have_met or tries == TRIES_MAX:
            return


def _meet(arena: Arena, verbs: Sequence[str], places: list[str]) -> Generator[float, None, bool]:
    """Tell whether each was told what became of the units, and one did what the last one asks for."""
    meeting = Meeting()
    people = [_start(arena, verb, places, meeting) for verb in verbs]
    meeting.seat()
    until_s = time.monotonic() + bounded_patience(COMMAND_S)
    while any(_is_at_it(person) for person in people) and time.monotonic() < until_s:
        meeting.look_on()
        yield LOOK_S
    meeting.close()
    together = uuid4().hex
    told = [_record(arena, person, together) for person in people]
    return all(told) and any(_DID[verbs[-1]] in units.values() for units in told)


def _is_at_it(person: Person) -> bool:
    with suppress(subprocess.TimeoutExpired):
        person.popen.wait(0.01)  # when the run ends, nobody else makes a pause
    return person.popen.poll() is None


def _choose(arena: Arena) -> list[str]:
    with suppress(psycopg.Error):
        places = [row[0] for row in arena.scene.admin().execute(_PLACES).fetchall()]
        return arena.random.sample(places, k=min(len(places), UNITS_MAX))
    return []


def _start(arena: Arena, verb: str, places: list[str], meeting: Meeting) -> Person:
    reason = ["--reason", "chaos"] if verb == "discard" else []
    ends = (meeting.looks, meeting.waits)
    popen = subprocess.Popen(
        [sys.executable, "-m", "chaos.person", *map(str, ends), verb, *reason, "--json", *places],
        env=environment() | {"GAPLESS_DSN": arena.scene.operator_dsn},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=ends,
        text=True,
    )
    return Person(verb, popen)


def _record(arena: Arena, person: Person, together: str) -> dict[str, str]:
    """Write down what a person was told, and return it; who waits too long gives up."""
    if person.popen.poll() is None:
        person.popen.kill()
    told, complaint = person.popen.communicate()
    units: dict[str, str] = json.loads(told)["units"] if person.popen.returncode == 0 else {}
    arena.writer.write(
        Asked(
            verb=person.verb,
            together=together
            if person.popen.returncode == 0
            else uuid4().hex,  # it was told nothing
            code=person.popen.returncode,
            said=complaint.strip()[-500:],
            units=tuple(units.items()),
        )
    )
    return units
