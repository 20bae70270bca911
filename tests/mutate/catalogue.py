"""The classic mistakes of tests/chaos/mutants, those of SQL, as mutants for the ordinary tests."""

from collections.abc import Iterator
from functools import reduce
from pathlib import Path

from mutate.mutant import Mutant


def mutants(path: str, text: str) -> Iterator[Mutant]:
    """Find those that change this file of functions; what they change in others is left alone."""
    from chaos.mutants.catalogue import MUTANTS  # it brings all of the fault harness along

    for each in MUTANTS:
        edits = [edit for edit in each.edits if edit.file == Path(path).stem]
        if not edits:
            continue
        mutated = reduce(lambda done, edit: edit.apply(done), edits, text)
        yield Mutant(
            path=path,
            how=f"catalogue/{each.name}",
            within="",
            line=text.count("\n", 0, text.index(edits[0].old)) + 1,
            original=text,
            make=lambda mutated=mutated: mutated,  # type: ignore[misc]
        )
