"""I10: what a handler of the chain published for a unit is there once, as a unit of its own.

What it was to publish is known (chaos.chain.plan). All of it that shares a partition is one unit, was
handed on as one, and says what it came of.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from uuid import UUID

from chaos.chain import plan, root_of
from chaos.checker.facts import At, Facts
from chaos.checker.rows import Effect, Placed
from chaos.checker.violation import Violation, about, of_group
from chaos.history import Linked, Sent


def find(facts: Facts) -> Iterator[Violation]:
    roots = {
        event.tag: event.transaction_id
        for (topic, _), events in facts.log.items()
        if facts.links and topic == facts.links[0].topic
        for event in events
        if event.tag is not None
    }
    for link in facts.links:
        if link.into is not None:
            yield from _Link(facts, link, roots).find()


class _Link:
    """What one group of the chain published."""

    def __init__(self, facts: Facts, link: Linked, roots: dict[str, UUID | None]) -> None:
        self._facts = facts
        self._link = link
        self._roots = roots
        self._places = {
            tag: there
            for tag, found in facts.by_tag.items()
            if (there := [event for event in found if event.topic == link.into])
        }
        self._units = {
            (topic, partition, event.c_offset): unit
            for (topic, partition), units in facts.units.items()
            if topic == link.into
            for unit in units
            for event in unit
        }
        self._effects: dict[tuple[str, int, int], list[Effect]] = defaultdict(list)
        self._handled: dict[tuple[int, int], Effect] = {}
        for effect in facts.effects:
            if effect.topic == link.into:
                place = (effect.topic, effect.partition_id, effect.c_offset)
                self._effects[place].append(effect)
            if (effect.group_id, effect.topic) == (link.group, link.topic):
                self._handled.setdefault((effect.partition_id, effect.c_offset), effect)

    def find(self) -> Iterator[Violation]:
        wanted: set[str] = set()
        for (topic, partition), units in self._facts.units.items():
            if topic != self._link.topic:
                continue
            handled = [unit for unit in units if (partition, unit[0].c_offset) in self._handled]
            for unit in handled:
                events = plan(self._link, unit[0].tag or "").events
                wanted |= {event.tag for event in events}
                yield from self._of_unit(unit[0], events)
            yield from self._overtaken([unit[0] for unit in handled])
        for tag in self._places.keys() - wanted:
            yield _about(self._places[tag][0], "chain ghost", "no unit was handled that it is for")

    def _of_unit(self, cause: Placed, events: Sequence[Sent]) -> Iterator[Violation]:
        """What is there of the events that were published for a unit."""
        found: dict[int, list[Placed]] = defaultdict(list)
        for event in events:
            places = self._places.get(event.tag, [])
            if not places:
                here = event.tag in self._facts.unsequenced
                name, where = (
                    ("not sequenced", "has no offset") if here else ("chain lost", "is nowhere")
                )
                yield self._above(cause, name, f"{event.tag} was published, and {where}")
                continue
            if len(places) > 1:
                text = " and ".join(f"{each.partition_id}@{each.c_offset}" for each in places)
                yield _about(places[1], "chain doubled", f"it is at {text}")
            yield from self._as_sent(cause, event, places[0])
            found[places[0].partition_id].append(places[0])
        if len({each.transaction_id for run in found.values() for each in run}) > 1:
            text = "what was published for it has several transaction_ids"
            yield self._above(cause, "wrong transaction", text)
        for run in found.values():
            yield from self._one_unit(run)
            yield from self._one_call(run)

    def _as_sent(self, cause: Placed, event: Sent, place: Placed) -> Iterator[Violation]:
        link = self._link
        if (place.topic, place.key, place.digest) != (event.topic, event.key, event.digest):
            yield _about(place, "chain changed", "it is not what was published")
        if event.transaction_id not in (None, str(place.transaction_id)):
            yield _about(place, "wrong transaction", f"it was to be {event.transaction_id}")
        key = f"{link.group}/{link.topic}/{cause.partition_id}@{cause.c_offset}"
        if (place.cause or "").partition("~")[0] != key:
            yield _about(place, "wrong cause", f"it came of {key}, and says {place.cause}")
        root = self._roots.get(root_of(event.tag))
        if place.correlation != root:
            text = f"its chain began as {root}, it says {place.correlation}"
            yield _about(place, "wrong correlation", text)

    def _one_unit(self, run: list[Placed]) -> Iterator[Violation]:
        """What was published for a unit, and shares a partition, is one unit, in its order."""
        units = {id(unit): unit for unit in (self._unit(each) for each in run)}
        if len(units) > 1:
            yield _about(run[-1], "chain split", f"{len(run)} events are {len(units)} units")
        ours = {each.tag for each in run}
        for unit in units.values():
            strange = [each for each in unit if each.tag not in ours]
            if strange:
                text = f"its unit has {strange[0].tag}, too, which came of {strange[0].cause}"
                yield _about(run[0], "chain mixed", text)
        for one, next_ in pairwise(run):
            if next_.c_offset < one.c_offset:
                yield _about(next_, "chain out of order", f"it was published after {one.tag}")

    def _one_call(self, run: list[Placed]) -> Iterator[Violation]:
        """It was handed on together: all in one call and one transaction, or nothing of it."""
        effects = [self._effects.get((e.topic, e.partition_id, e.c_offset), []) for e in run]
        calls = {tuple(each.xid for each in of_event) for of_event in effects}
        if len(calls) > 1:
            yield _about(run[0], "chain apart", f"{len(run)} events were handled by {calls}")
        elif any(each and each[0].position != n for n, each in enumerate(effects)):
            text = f"{len(run)} events were at {[e[0].position for e in effects]} of a call"
            yield _about(run[0], "chain apart", text)

    def _overtaken(self, handled: list[Placed]) -> Iterator[Violation]:
        """Units that a partition's batches handled one after the other: so is what they published (I4)."""
        last: dict[tuple[int, int], Placed] = {}
        for cause in sorted(handled, key=lambda each: self._effect(each).id):
            if self._batch(cause) is None:
                continue  # set aside, and handled later
            for event in plan(self._link, cause.tag or "").events:
                for place in self._places.get(event.tag, [])[:1]:
                    where = (place.layout, place.partition_id)
                    if where in last and last[where].c_offset > place.c_offset:
                        text = f"{last[where].tag} was published before it"
                        yield _about(place, "chain overtaken", text)
                    last[where] = place

    def _effect(self, cause: Placed) -> Effect:
        return self._handled[cause.partition_id, cause.c_offset]

    def _batch(self, cause: Placed) -> object:
        at: At = (self._link.group, cause.topic, cause.partition_id)
        return self._facts.batch_of.get((at, self._effect(cause).xid))

    def _unit(self, event: Placed) -> list[Placed]:
        return self._units[event.topic, event.partition_id, event.c_offset]

    def _above(self, cause: Placed, name: str, text: str) -> Violation:
        """About a unit that was handled, as its group saw it."""
        at: At = (self._link.group, cause.topic, cause.partition_id)
        return of_group(at, cause.c_offset, "I10", name, text, cause.tag)


def _about(event: Placed, name: str, text: str) -> Violation:
    return about(event, "I10", name, text)
