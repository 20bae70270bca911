"""park-key: behind a unit that was set aside waits whoever shares a key with it, until it is closed.

Also when the number of partitions was changed meanwhile: a key's earlier events are then in another
partition, of an earlier layout. The order of what was handled is looked at by keys.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from chaos.checker.facts import At, Facts
from chaos.checker.rows import Placed
from chaos.checker.violation import Violation, of_group


@dataclass(frozen=True, slots=True)
class _Unit:
    """A unit of a parking group. closed: when nobody waited behind it any more; began: its handling."""

    at: At
    offset: int
    tag: str | None
    aside: bool
    is_open: bool
    closed: float
    began: float


def find(facts: Facts) -> Iterator[Violation]:
    for group, topic in sorted({at[:2] for at in facts.moves}):
        if facts.parks(group):
            yield from _behind(facts, group, topic)


def _behind(facts: Facts, group: str, topic: str) -> Iterator[Violation]:
    sheltered: set[tuple[At, int]] = set()
    for key, units in _lines(facts, group, topic):
        ahead: _Unit | None = None  # of those that were set aside, the one that was closed last
        some_open = False
        for unit in units:
            if ahead is not None and unit.began < ahead.closed:
                text = f"handled while {ahead.tag} of its key {key} was set aside"
                yield of_group(unit.at, unit.offset, "I4", "held key passed", text)
            if some_open:
                sheltered.add((unit.at, unit.offset))
            some_open = some_open or unit.is_open
            if unit.aside and (ahead is None or unit.closed > ahead.closed):
                ahead = unit
    for (at, offset), asides in facts.asides_of.items():
        last = asides[-1]
        parked = at[:2] == (group, topic) and last.what != "DELETE" and last.state == "parked"
        if parked and (at, offset) not in sheltered:
            text = "all that was in front is handled or discarded"
            yield of_group(at, offset, "I8", "parked behind nobody", text)


def _lines(facts: Facts, group: str, topic: str) -> Iterator[tuple[str, list[_Unit]]]:
    """Yield the units of each key, in their order."""
    began = {
        partition: _began(facts, (group, topic, partition))
        for of_topic, partition in facts.units
        if of_topic == topic
    }
    for key, line in facts.keyed(topic).items():
        yield key, [_unit(facts, (group, topic, p), unit, began[p]) for p, unit in line]


def _began(facts: Facts, at: At) -> dict[int, float]:
    """Return when the events at these offsets were handled, or their calls began first."""
    began = {effect.c_offset: effect.at for effect in facts.effects_at.get(at, ())}
    for (of, offset), calls in facts.calls_of.items():
        if of == at:
            began[offset] = min(call.at for call in calls)
    return began


def _unit(facts: Facts, at: At, events: list[Placed], began: dict[int, float]) -> _Unit:
    offset = events[0].c_offset
    asides = facts.asides_of.get((at, offset), [])
    closed = next((each.at for each in asides if each.is_closed), inf if asides else -inf)
    return _Unit(
        at=at,
        offset=offset,
        tag=events[0].tag,
        aside=bool(asides),
        is_open=closed == inf,
        closed=closed,
        began=began.get(offset, inf),
    )
