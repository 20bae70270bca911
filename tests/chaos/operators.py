"""What people do to dead letters, two of them at once: as `gapless dlq` does, from sessions of their own."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Thread
from uuid import uuid4

import psycopg

from chaos.arena import Arena, fault
from chaos.effects import session
from chaos.history import Asked
from gapless import ops
from support.patience import bounded_patience

UNITS_MAX = 8
LOOK_S = 0.05
MEET_S = 10.0
ACT_S = 30.0  # on a quiet machine
TRIES_MAX = (
    5  # two that a fault, or other people, kept apart; so a run of two minutes sees them meet
)
LOOKS_MAX = 30  # for dead letters, when a run is young
NONE_YET_S = 1.0
_DID = {"redrive": "asked", "discard": "discarded"}
# Some that others are parked behind, and some that were mended since they died.
_PLACES = """
select d.group_id, t.name, d.partition_id, d.first_offset
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


class Person(Thread):
    """Acts in the same moment as the others who meet: none acts before all are there."""

    def __init__(self, dsn: str, verb: str, places: list[ops.GroupPlace], meeting: Barrier) -> None:
        super().__init__(daemon=True)
        self.verb = verb
        self.told: dict[str, str] = {}  # of each unit; of none where a fault came between
        self._dsn, self._places, self._meeting = dsn, places, meeting
        self.start()

    def run(self) -> None:
        with (
            suppress(psycopg.Error, BrokenBarrierError),
            session(self._dsn, "person") as conn,
        ):
            self._meeting.wait()
            if self.verb == "redrive":
                done = ops.redrive_units(conn, self._places)
            else:
                done = ops.discard_units(conn, self._places, reason="chaos")
            self.told = {str(each.place): each.outcome for each in done}


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
        arena.note(kind, " ".join(map(str, places)))
        have_met = yield from _meet(arena, verbs, places)
        arena.note_end(kind, " ".join(map(str, places)))
        tries += 1
        if have_met or tries == TRIES_MAX:
            return


def _meet(
    arena: Arena, verbs: Sequence[str], places: list[ops.GroupPlace]
) -> Generator[float, None, bool]:
    """Tell whether each was told what became of the units, and one did what the last one asks for."""
    meeting = Barrier(len(verbs), timeout=MEET_S)
    people = [Person(arena.scene.operator_dsn, verb, places, meeting) for verb in verbs]
    until_s = time.monotonic() + bounded_patience(ACT_S)
    while any(_is_at_it(person) for person in people) and time.monotonic() < until_s:
        yield LOOK_S
    together = uuid4().hex
    told = [(person.verb, person.told) for person in people if person.told]
    for verb, units in told:
        arena.writer.write(Asked(verb=verb, together=together, units=tuple(units.items())))
    did = any(_DID[verbs[-1]] in units.values() for _, units in told)
    return did and len(told) == len(people)


def _is_at_it(person: Person) -> bool:
    person.join(0.01)  # when the run ends, nobody else makes a pause
    return person.is_alive()


def _choose(arena: Arena) -> list[ops.GroupPlace]:
    with suppress(psycopg.Error):
        found = arena.scene.admin().execute(_PLACES).fetchall()
        chosen = arena.random.sample(found, k=min(len(found), UNITS_MAX))
        return [
            ops.GroupPlace(group=group, topic=topic, partition=partition, offset=offset)
            for group, topic, partition, offset in chosen
        ]
    return []
