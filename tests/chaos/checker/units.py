"""I5: the events of one transaction that share a partition stay neighbours, and are handled as one."""

from collections.abc import Iterator
from itertools import groupby, pairwise

from chaos.checker.facts import At, Facts
from chaos.checker.rows import Effect, Placed
from chaos.checker.violation import Violation, about, of_group


def find(facts: Facts) -> Iterator[Violation]:
    places = {tag: found[-1] for tag, found in facts.by_tag.items()}
    ends = {
        where: {event.c_offset for event in events if event.ends_unit}
        for where, events in facts.log.items()
    }
    for unit, named in _sent_units(facts, places):
        yield from _in_the_log(unit, ends[unit[0].topic, unit[0].partition_id], named=named)
    for at, effects in facts.effects_at.items():
        yield from _handled(at, effects, ends.get((at[1], at[2]), set()))


def _sent_units(facts: Facts, places: dict[str, Placed]) -> Iterator[tuple[list[Placed], bool]]:
    """The units as their producers sent them: neighbours of one transaction_id, a partition each.

    With whether they have an explicit one: another transaction may go on with it.
    """
    for attempt in facts.attempts.values():
        placed = [
            (event, places[event.tag]) for event in attempt.invoke.events if event.tag in places
        ]
        placed.sort(key=lambda each: (each[1].topic, each[1].partition_id))  # stable: as inserted
        for (*_, explicit), run in groupby(
            placed,
            key=lambda each: (each[1].topic, each[1].partition_id, each[0].transaction_id),
        ):
            yield [place for _, place in run], explicit is not None


def _in_the_log(unit: list[Placed], ends: set[int], *, named: bool) -> Iterator[Violation]:
    for one, next_ in pairwise(unit):
        if next_.c_offset < one.c_offset:
            yield about(next_, "I4", "insertion order", f"it was inserted after {one.tag}")
        elif next_.c_offset != one.c_offset + 1:
            text = f"{one.tag} of its transaction is at {one.c_offset}, others lie between"
            yield about(next_, "I5", "torn unit", text)
        elif one.c_offset in ends:
            yield about(one, "I5", "torn unit", "its unit is marked to end in the middle")
    if not named and unit[-1].c_offset not in ends:
        yield about(
            unit[-1], "I5", "unit without end", "the next transaction is taken for its unit"
        )


def _handled(at: At, effects: list[Effect], ends: set[int]) -> Iterator[Violation]:
    """Each unit was given to the handler whole, and its effects commit together."""
    before: Effect | None = None
    for effect in effects:
        within = before is not None and before.c_offset not in ends and effect.position > 0
        cut = effect.position == 0 and effect.c_offset > 1 and effect.c_offset - 1 not in ends
        if within and before is not None and effect.xid != before.xid:
            text = f"its unit is in transactions {before.xid} and {effect.xid}"
            yield _effect(at, effect, "unit in two transactions", text)
        elif cut:
            yield _effect(at, effect, "unit cut", "its handler was given a part of its unit")
        elif effect.position > 0 and (
            before is None or (before.position, before.xid) != (effect.position - 1, effect.xid)
        ):
            yield _effect(at, effect, "unit cut", f"position {effect.position} follows nothing")
        before = effect


def _effect(at: At, effect: Effect, name: str, text: str) -> Violation:
    return of_group(at, effect.c_offset, "I5", name, f"{effect.tag}: {text}", effect.tag)
