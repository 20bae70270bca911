"""Read the complete history of a run and say what in it no correct gapless could have done.

`check(conn, folder)` after the load ended and everything was drained: conn is a superuser's session
in the run's database, folder has the JSONL files of chaos.history, the tables are those of
tables.sql. Everything is sorted once and walked once: O(n log n). One file is one family of
invariants (docs/why/invariants.md); each has find(facts), which yields violations.

Unknown COMMITs are resolved by pg_xact_status(), so that no "maybe" is left.
"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from psycopg import Connection

from chaos.checker import (
    asides,
    calls,
    chains,
    columns,
    effects,
    keys,
    later,
    letters,
    offsets,
    order,
    outcomes,
    owners,
    parking,
    plans,
    published,
    queues,
    standstill,
    units,
)
from chaos.checker.facts import Facts, gather
from chaos.checker.story import tell
from chaos.checker.violation import Violation
from chaos.history import Record, read

__all__ = ["Facts", "Violation", "check", "check_records", "gather", "report"]

FAMILIES = (
    *(published, columns, offsets, order, units, effects, keys, owners, standstill, letters, plans),
    *(outcomes, asides, parking, calls, chains, queues, later),
)
STORIES_PER_NAME = 5


def check(conn: Connection[Any], folder: Path) -> list[Violation]:
    """Return every violation, those with the shortest history first; [] is a good run."""
    return check_records(conn, read(folder))


def check_records(conn: Connection[Any], records: list[Record]) -> list[Violation]:
    """As check(), of records that were read, or made, already."""
    facts = gather(conn, records)
    found: list[Violation] = []
    told: Counter[str] = Counter()
    for family in FAMILIES:
        for violation in family.find(facts):
            told[violation.name] += 1
            wanted = told[violation.name] <= STORIES_PER_NAME
            found.append(
                replace(violation, history=tell(facts, violation)) if wanted else violation
            )
    return sorted(found, key=lambda each: (not each.history, len(each.history)))


def report(violations: list[Violation]) -> str:
    """Return how many there are of each name, and the shortest history of each, for people."""
    counts = Counter((each.invariant, each.name) for each in violations)
    lines = [f"{count} x {invariant} {name}" for (invariant, name), count in sorted(counts.items())]
    shown: set[str] = set()
    for each in violations:
        if each.name not in shown:
            shown.add(each.name)
            lines += ["", str(each), *(f"    {line}" for line in each.history)]
    return "\n".join(lines)
