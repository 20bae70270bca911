"""Each unit that a group passed ends in one way, and in the one that its handlers and policy give it.

Handled, skipped, dead or discarded; or parked behind one that is dead. What its events do is known
from those who sent them (chaos.deeds).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from chaos.checker.facts import At, Facts
from chaos.checker.failures import Aside
from chaos.checker.rows import Placed
from chaos.checker.violation import Violation, of_group
from chaos.deeds import DEADLY, KILLERS
from chaos.history import Grouped

Fate = Literal["handled", "skipped", "dead"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """What became of a unit. last: its newest version, if it was ever set aside and is still known."""

    at: At
    offset: int
    deeds: list[str]
    handled: bool
    skipped: bool
    asides: list[Aside]

    @property
    def state(self) -> str:
        """As it is in the dead letter queue now; "" when it is not there."""
        last = self.asides[-1] if self.asides else None
        return "" if last is None or last.what == "DELETE" else last.state

    def about(self, invariant: str, name: str, text: str) -> Violation:
        return of_group(self.at, self.offset, invariant, name, text)


def find(facts: Facts) -> Iterator[Violation]:
    effects = Counter(
        (each.group_id, each.topic, each.partition_id, each.c_offset) for each in facts.effects
    )
    for cursor in facts.cursors:
        at = (cursor.group_id, cursor.topic, cursor.partition_id)
        if facts.group(at).mode == "queue":  # queues.find() has these
            continue
        if any(move.seek for move in facts.moves.get(at, ())):
            continue
        for unit in facts.units.get((at[1], at[2]), []):
            if unit[0].c_offset < cursor.next_offset:
                end = _end(facts, at, unit, effects)
                yield from _one_end(facts, end)
                yield from _right_end(facts, end)


def fate(deeds: list[str], group: Grouped) -> Fate:
    """Return how a unit ends: the first deed that is for good decides."""
    for deed in deeds:
        if deed == "skip":
            return "skipped"
        if deed in DEADLY and (deed == "dead" or group.on_failure != "block"):
            return "dead"
    return "handled"


def _end(
    facts: Facts, at: At, unit: list[Placed], effects: Counter[tuple[str, str, int, int]]
) -> _End:
    first = unit[0].c_offset
    calls = facts.calls_of.get((at, first), ())
    sent = [each for event in unit if (each := facts.sent_as(event.tag))]
    return _End(
        at=at,
        offset=first,
        deeds=[deed for each in sent if (deed := each.does or ("raise" if each.poison else ""))],
        handled=any(effects[*at, event.c_offset] for event in unit)
        or any(call.phase == "end" for call in calls),
        skipped=facts.was_skipped(at, first),
        asides=facts.asides_of.get((at, first), []),
    )


def _one_end(facts: Facts, end: _End) -> Iterator[Violation]:
    once = facts.group(end.at).delivery == "exactly-once"
    if end.handled and once and end.state in ("discarded", "waiting", "parked"):
        yield end.about("I6", "handled and set aside", f"it has an effect, and is {end.state}")
    if end.handled or end.state in ("dead", "discarded"):
        return
    if end.state == "waiting":
        yield end.about("I8", "left waiting", "all is over, and its next attempt never came")
    elif end.state != "parked" and not end.skipped and (once or end.asides):
        yield end.about("I1", "no end", "neither handled nor skipped, dead or discarded")


def _right_end(facts: Facts, end: _End) -> Iterator[Violation]:
    group = facts.group(end.at)
    wanted = fate(end.deeds, group)
    if end.handled and wanted == "dead":
        yield end.about("I9", "poison handled", "its handler raises, it has an effect")
    if end.handled and wanted == "skipped":
        yield end.about("I6", "skip handled", "its handler wished to skip it, it has an effect")
    died = next((each for each in end.asides if each.state == "dead"), None)
    if died is None:
        return
    killers = [deed for deed in end.deeds if deed in KILLERS]
    if killers and len(end.deeds) == 1 and wanted == "dead" and not died.is_death:
        yield end.about("I8", "killer unexplained", f"it is dead for: {died.reason}")
    if wanted != "dead" and not died.is_death and not _may_die(end, group):
        yield end.about("I9", "healthy and dead", f"no handler refuses it: {died.reason}")


def _may_die(end: _End, group: Grouped) -> bool:
    """Whether what its handlers refuse for a while may be more than its policy has patience for."""
    refused = sum(deed in ("mend", "again") for deed in end.deeds)
    return refused > 1 or ("mend" in end.deeds and group.on_failure == "dead-letter")
