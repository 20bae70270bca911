"""I4: who committed before another one began comes first, wherever they share a partition."""

from collections import defaultdict
from collections.abc import Iterator
from math import inf

from chaos.checker.facts import Facts
from chaos.checker.rows import Placed
from chaos.checker.violation import Violation, about
from chaos.history import Inserting


def find(facts: Facts) -> Iterator[Violation]:
    inserted_ns = _insertions(facts)
    for events in facts.log.values():
        earliest_ns: float = inf  # when the first of the attempts behind had committed
        earliest: Placed | None = None
        for event in reversed(events):
            attempt, _ = facts.sent.get(event.tag or "", (None, None))
            if attempt is None:
                continue
            if earliest is not None and earliest_ns < inserted_ns[event.tag or ""]:
                place = f"{earliest.tag} at offset {earliest.c_offset}"
                text = f"it was inserted after {place} had committed"
                yield about(event, "I4", "out of order", text, attempt)
            if attempt.committed_ns is not None and attempt.committed_ns < earliest_ns:
                earliest_ns, earliest = attempt.committed_ns, event


def _insertions(facts: Facts) -> dict[str, int]:
    """Return when each event was inserted, or a moment before that."""
    found: dict[str, int] = {}
    later: dict[str, list[Inserting]] = defaultdict(list)
    for record in facts.records:
        if isinstance(record, Inserting):
            later[record.attempt].append(record)
    for id_, attempt in facts.attempts.items():
        at_ns = attempt.invoke.at_ns
        begins = {each.first: each.at_ns for each in later[id_]}
        for number, event in enumerate(attempt.invoke.events):
            at_ns = begins.get(number, at_ns)
            found[event.tag] = at_ns
    return found
