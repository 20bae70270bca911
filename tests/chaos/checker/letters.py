"""I9: whole units are dead, with all they had."""

from collections.abc import Iterator

from chaos.checker.facts import At, Facts
from chaos.checker.rows import Letter, Placed
from chaos.checker.violation import Violation, of_group


def find(facts: Facts) -> Iterator[Violation]:
    dead: dict[At, dict[int, Letter]] = {}
    for letter in facts.letters:
        at = (letter.group_id, letter.topic, letter.partition_id)
        dead.setdefault(at, {})[letter.c_offset] = letter
    ever = {
        (at, change.c_offset)
        for at, changes in facts.lettered.items()
        for change in changes
        if change.what != "DELETE"
    }
    handled = {(at, e.c_offset) for at, effects in facts.effects_at.items() for e in effects}
    sought = {at for at, moves in facts.moves.items() if any(move.seek for move in moves)}
    for at in facts.moves:
        letters = dead.get(at, {})
        for unit in facts.units.get((at[1], at[2]), []):
            yield from _whole(at, unit, ever)
        for offset, letter in letters.items():
            if letter.other:
                text = f"{', '.join(letter.other)}: not what was published"
                yield _about(at, offset, "letter changed", text)
            again = letter.status == "dead" and (at, offset) in handled and at not in sought
            if again:
                yield _about(at, offset, "handled and dead", "it has an effect, and a dead letter")
        for offset in sorted(
            set(letters) - {e.c_offset for e in facts.log.get((at[1], at[2]), [])}
        ):
            yield _about(at, offset, "ghost letter", "no event is at that offset")


def _whole(at: At, unit: list[Placed], ever: set[tuple[At, int]]) -> Iterator[Violation]:
    had = [event for event in unit if (at, event.c_offset) in ever]
    if had and len(had) != len(unit):
        missing = next(event for event in unit if (at, event.c_offset) not in ever)
        text = f"{len(had)} of the {len(unit)} events of the unit are dead letters"
        yield _about(at, missing.c_offset, "half a unit dead", text)


def _about(at: At, offset: int, name: str, text: str) -> Violation:
    return of_group(at, offset, "I9", name, text)
