"""park-key: find the units of a claim that have to go behind one that was set aside.

Order per key survives a failure: while a unit is set aside and parks (it waits, is parked itself,
or is dead), every later unit that touches one of its keys is parked, and holds all keys of its own.
The keys are in the database under the same fence as the offset, so a new owner knows them. When no
key is held, the cost is one look-up for each claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gapless.consume.aside.record import set_aside, settle_parked
from gapless.consume.job import NONE, Job
from gapless.consume.read.units import with_settings_checked
from gapless.consume.session import run
from gapless.consume.unit import Span, Unit
from gapless.consume.verdict.failure import Failure
from gapless.consume.verdict.policy import Verdict

BEHIND = Failure(error="parked behind an earlier unit of its key", attempts=0)


class Parking:
    """Parks units, in offset order, in the open transaction; settle_parking() before COMMIT."""

    def __init__(self, job: Job, keys: dict[int, set[bytes]], held: set[bytes]) -> None:
        self.job = job
        self.keys = keys
        self._held = held
        self.parked: list[int] = []

    @classmethod
    def load(cls, job: Job, spans: Sequence[Span]) -> Parking:
        """Look up the keys of these units, and whether each is held."""
        params = {
            **job.assignment.partition.params,
            "message_ids": [message_id for span in spans for message_id in span.ids],
            "first_offsets": [span.first_offset for span in spans for _ in span.ids],
        }
        keys: dict[int, set[bytes]] = {span.first_offset: set() for span in spans}
        held: set[bytes] = set()
        for first_offset, key, is_held in run(job.conn, "unit_keys", params):
            keys[first_offset].add(bytes(key))
            if is_held:
                held.add(bytes(key))
        return cls(job, keys, held)

    def numbered(self, units: Iterable[Unit], first: int = 0) -> Iterator[tuple[int, Unit]]:
        """Yield the units to be handled, each with its number; park the others."""
        called = ((at, unit) for at, unit in enumerate(units, first) if not self.parks(unit))
        return with_settings_checked(self.job.handler, called)

    def parks(self, unit: Unit) -> bool:
        """Park a unit if it touches a key that is held; tell whether it did."""
        if not self.stops(unit.first_offset):
            return False
        set_aside(self.job, unit.span, BEHIND, Verdict(state="parked"))
        self.parked.append(unit.first_offset)
        return True

    def stops(self, first_offset: int) -> bool:
        """Tell whether a unit touches a key that is held; if so, all its keys are held as well."""
        if self.keys[first_offset].isdisjoint(self._held):
            return False
        self.hold(first_offset)
        return True

    def hold(self, first_offset: int) -> None:
        """Hold the keys of a unit that was set aside just now."""
        self._held |= self.keys[first_offset]


def settle_parking(parking: Parking | None) -> Mapping[str, int]:
    """Complete the parking before the COMMIT, which is next; return the number of units parked."""
    if parking is None:
        return NONE
    if parking.parked:
        settle_parked(parking.job.conn, parking.job.assignment.partition, parking.parked)
    return {"parked": len(parking.parked)}


def parking_for(job: Job, spans: Sequence[Span]) -> Parking | None:
    """Return the Parking for units just claimed; None when no unit has to be parked."""
    return Parking.load(job, spans) if job.parks and holds_keys(job) else None


def holds_keys(job: Job) -> bool:
    """Tell whether a unit of the partition that was set aside holds a key, with one look-up."""
    ((held,),) = run(job.conn, "holds_keys", job.assignment.partition.params)
    return bool(held)
