"""I9: whole units are dead, with all they had; those that should be are, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.checker.facts import At, Facts
from chaos.checker.rows import Letter, Placed
from chaos.checker.units import log_units
from chaos.checker.violation import Violation

# Killed at the same unit again and again, a worker's death counts against it: that is the promise.
DEATHS = "its worker died"


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
        for unit in log_units(facts.log.get((at[1], at[2]), [])):
            yield from _whole(at, unit, ever)
            yield from _rightly(facts, at, unit, letters, handled)
        for offset, letter in letters.items():
            if not letter.same:
                yield _about(at, offset, "letter changed", "it is not what was published")
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


def _rightly(
    facts: Facts,
    at: At,
    unit: list[Placed],
    letters: dict[int, Letter],
    handled: set[tuple[At, int]],
) -> Iterator[Violation]:
    sent = [facts.sent[event.tag][1] for event in unit if event.tag in facts.sent]
    poison = any(event.poison for event in sent)
    for event in unit:
        letter = letters.get(event.c_offset)
        if poison and (at, event.c_offset) in handled and letter is None:
            yield _about(
                at, event.c_offset, "poison handled", "its handler raises, it has an effect"
            )
        healthy = bool(sent) and not poison
        if healthy and letter is not None and DEATHS not in letter.exception:
            error = letter.exception.splitlines()[-1:] or [""]
            yield _about(
                at, event.c_offset, "healthy and dead", f"no handler refuses it: {error[0]}"
            )


def _about(at: At, offset: int, name: str, text: str) -> Violation:
    return Violation(
        invariant="I9",
        name=name,
        text=text,
        group=at[0],
        topic=at[1],
        partition=at[2],
        offset=offset,
    )
