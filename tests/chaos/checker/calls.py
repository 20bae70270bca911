"""At-least-once: every unit is called to its end before the offset passes it, in order for each key.

A call may be repeated, and one of a worker that nobody waits for any more may end late. So what
counts is when the first one ended.
"""

from collections.abc import Iterator
from math import inf

from chaos.checker.facts import At, Facts
from chaos.checker.failures import Call
from chaos.checker.violation import Violation, of_group


def find(facts: Facts) -> Iterator[Violation]:
    outside = [at for at in facts.moves if facts.group(at).delivery == "at-least-once"]
    for at in outside:
        yield from _prefix(facts, at)
    for group, topic in sorted({at[:2] for at in outside}):
        yield from _keys(facts, group, topic)
    yield from _idempotency(facts)
    for (at, offset), calls in facts.calls_of.items():
        yield from _attempts(facts, at, offset, calls)


def _prefix(facts: Facts, at: At) -> Iterator[Violation]:
    """The offset moves over what has ended, or was set aside."""
    for move in facts.moves[at]:
        if not move.is_batch:
            continue
        for unit in facts.units.get((at[1], at[2]), []):
            first = unit[0].c_offset
            if not move.old_offset <= first < move.next_offset or facts.was_skipped(at, first):
                continue
            calls = facts.calls_of.get((at, first), ())
            ended = min((call.at for call in calls if call.phase == "end"), default=inf)
            aside = min((each.at for each in facts.asides_of.get((at, first), ())), default=inf)
            if min(ended, aside) > move.at:
                name = "never called to its end" if ended == inf else "passed before its end"
                yield of_group(at, first, "I1", name, f"the offset moved to {move.next_offset}")


def _keys(facts: Facts, group: str, topic: str) -> Iterator[Violation]:
    """A call begins after one for the unit before it, of each of its keys, has ended."""
    for key, line in facts.keyed(topic).items():
        ended, before = -1.0, None
        for partition, (event, *_) in line:
            at = (group, topic, partition)
            calls = facts.calls_of.get((at, event.c_offset), [])
            began = min((call.id for call in calls if call.phase == "begin"), default=inf)
            if before is not None and began < ended:
                text = f"its call began before one for {before.tag} of key {key} had ended"
                yield of_group(at, event.c_offset, "I4", "key overtaken", text)
            if (at, event.c_offset) in facts.asides_of or not calls:
                continue  # parking.py looks at what is behind it
            end = min((call.id for call in calls if call.phase == "end"), default=-1)
            if end > ended:
                ended, before = end, event


def _idempotency(facts: Facts) -> Iterator[Violation]:
    """A unit has one idempotency key, and no other unit of the group has it."""
    owner: dict[tuple[str, str], tuple[At, int]] = {}
    for (at, offset), calls in facts.calls_of.items():
        keys = {call.idempotency_key for call in calls}
        if len(keys) > 1:
            yield of_group(at, offset, "I6", "idempotency key changed", " and ".join(sorted(keys)))
        for key in keys:
            if owner.setdefault((at[0], key), (at, offset)) != (at, offset):
                yield of_group(at, offset, "I6", "idempotency key shared", key)


def _attempts(facts: Facts, at: At, offset: int, calls: list[Call]) -> Iterator[Violation]:
    """Until a unit is set aside, each of its calls is another attempt; the first one is 1."""
    aside = min((each.at for each in facts.asides_of.get((at, offset), ())), default=inf)
    told: set[int] = set()
    for call in calls:
        if call.phase == "begin" and call.at < aside:
            if call.attempt in told or call.attempt < 1:
                text = f"attempt {call.attempt} was told to two calls"
                yield of_group(at, offset, "I8", "attempt told twice", text)
            told.add(call.attempt)
