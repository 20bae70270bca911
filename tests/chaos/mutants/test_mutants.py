"""The checker can fail: each mutant of the product is caught, and the product itself is not.

A mutant that survives its play fails the test: then a guard is not tested, or is none.
"""

from pathlib import Path

import pytest

from chaos.checker import Violation, report
from chaos.mutants import python
from chaos.mutants.catalogue import MUTANTS
from chaos.mutants.mutant import Mutant, Play
from chaos.mutants.plays import MUTANT_PATIENCE_S
from chaos.points.theatre import Theatre

# Crash points are played without a mutant in chaos/points.
CLEAN = tuple(
    dict.fromkeys(
        mutant.play for mutant in MUTANTS if not mutant.play.__qualname__.startswith("at.")
    )
)

pytestmark = pytest.mark.long


@pytest.fixture
def theatre(server_dsn: str, template: str, tmp_path: Path) -> Theatre:
    return Theatre(server_dsn, template, tmp_path)


def run(theatre: Theatre, play: Play, mutant: Mutant | None = None) -> list[Violation]:
    with theatre:
        if mutant is not None:
            theatre.mutant = mutant.name
            theatre.patience_s = MUTANT_PATIENCE_S
            mutant.infect(theatre)
        seen = play(theatre)
        return [*seen, *theatre.check()]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "_"))
def test_a_mutant_is_caught(theatre: Theatre, mutant: Mutant) -> None:
    found = run(theatre, mutant.play, mutant)
    names = {each.name for each in found}
    assert names & mutant.caught_as, f"{mutant.name} survived, or looks otherwise:\n{report(found)}"


@pytest.mark.parametrize("play", CLEAN, ids=lambda play: play.__qualname__)
def test_the_product_is_clean_in_the_same_play(theatre: Theatre, play: Play) -> None:
    found = run(theatre, play)
    assert not found, report(found)


def test_every_mutant_changes_something() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 10
    assert set(python.PATCHES) == {mutant.name for mutant in MUTANTS if not mutant.edits} | {
        "batch not extended to the unit's end"
    }
