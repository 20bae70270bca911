"""I1, I2: what committed is in the log once, as it was sent; what rolled back is nowhere."""

from collections import Counter
from collections.abc import Iterator

from chaos.checker.attempts import Attempt
from chaos.checker.facts import Facts
from chaos.checker.rows import Placed
from chaos.checker.violation import Violation, about
from chaos.history import Sent
from chaos.later_shop import TOPIC as LATER


def find(facts: Facts) -> Iterator[Violation]:
    places = facts.by_tag
    for event in facts.placed_at.values():
        if event.tag is None:
            yield about(event, "I1", "row missing", "a segment names an event that is not there")
    for attempt in facts.attempts.values():
        if attempt.fate == "in progress":
            yield _of(attempt, "I8", "hanging", "its transaction is still open")
        for event in attempt.invoke.events:
            wanted = attempt.fate == "committed" and not event.undone
            yield from _event(facts, attempt, event, places.get(event.tag, []), wanted=wanted)
    # chains.py looks at what handlers published, later.py at what was for later.
    below = {link.into for link in facts.links} | {LATER}
    for tag in places.keys() - facts.sent.keys():
        if places[tag][0].topic in below:
            continue
        yield about(places[tag][0], "I2", "ghost", "nobody published it")
    yield from _business(facts)
    yield from _orders(facts)


def _event(
    facts: Facts, attempt: Attempt, event: Sent, found: list[Placed], *, wanted: bool
) -> Iterator[Violation]:
    if not wanted:
        for each in found[:1]:
            why = "its savepoint" if attempt.fate == "committed" else "its transaction"
            yield about(each, "I2", "ghost", f"{why} was rolled back", attempt)
        return
    if not found:
        name = "not sequenced" if event.tag in facts.unsequenced else "lost"
        yield _of(attempt, "I1", name, f"{event.tag} committed, and has no offset", event.tag)
        return
    if len(found) > 1:
        places = ", ".join(f"{each.topic}/{each.partition_id}@{each.c_offset}" for each in found)
        yield about(found[1], "I1", "two offsets", f"{event.tag} is at {places}", attempt)
    (place, *_) = found
    digest = event.digest or place.digest
    if (place.topic, place.key, place.digest) != (event.topic, event.key, digest):
        yield about(place, "I1", "changed", f"{event.tag} is not what was sent", attempt)


def _business(facts: Facts) -> Iterator[Violation]:
    """The producer's own row and its events: both or neither."""
    rows = Counter(row.attempt for row in facts.business)
    if not rows:
        return  # these producers write none
    for id_, attempt in facts.attempts.items():
        if attempt.fate == "committed" and rows[id_] != 1:
            yield _of(attempt, "I1", "torn outbox", f"{rows[id_]} business rows beside its events")
        if attempt.fate == "aborted" and rows[id_]:
            yield _of(attempt, "I2", "torn outbox", "a business row of a rolled-back transaction")


def _orders(facts: Facts) -> Iterator[Violation]:
    """One business order is published by one attempt, however often it is tried."""
    committed: Counter[str] = Counter()
    for attempt in facts.attempts.values():
        order = attempt.invoke.order
        committed[order] += attempt.fate == "committed"
        if attempt.fate == "committed" and committed[order] == 2:
            yield _of(
                attempt, "I1", "published twice", f"a second attempt of order {order} committed"
            )
    for attempt in facts.attempts.values():
        order = attempt.invoke.order
        if attempt.said == "already" and not committed[order]:
            yield _of(attempt, "I1", "lost", f"order {order} was said to be done, and is not")


def _of(
    attempt: Attempt, invariant: str, name: str, text: str, tag: str | None = None
) -> Violation:
    return Violation(
        invariant=invariant,
        name=name,
        text=text,
        tag=tag,
        topic=attempt.invoke.events[0].topic if attempt.invoke.events else None,
        attempt=attempt.invoke.attempt,
    )
