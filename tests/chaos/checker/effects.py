"""I1, I6: each event a group passed has one effect, in the transaction that moved the offset, in order.

A batch is a change of the fence row from one offset to the next. Its xid must have written exactly
the effects and the dead letters of its range.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from chaos.checker.facts import At, Facts
from chaos.checker.rows import Effect, Moved
from chaos.checker.violation import Violation, of_group


def find(facts: Facts) -> Iterator[Violation]:
    for at, moves in facts.moves.items():
        yield from _chain(at, moves)
        if facts.group(at).delivery == "exactly-once":
            yield from _passed(facts, at, moves)
    for at, effects in facts.effects_at.items():
        yield from _apart(facts, at, effects)
        yield from _order(facts, at, effects)
        yield from _content(facts, at, effects)


def _chain(at: At, moves: list[Moved]) -> Iterator[Violation]:
    """Committed offsets are a prefix: each batch begins where the last one ended (S2)."""
    stands: int | None = None
    for move in moves:
        if stands is not None and move.old_offset != stands:
            text = f"the offset went on from {move.old_offset}, it stood at {stands}"
            yield of_group(at, move.old_offset, "I6", "offset jumped", text)
        if move.next_offset < move.old_offset and not move.seek:
            text = f"the offset fell from {move.old_offset} to {move.next_offset}"
            yield of_group(at, move.next_offset, "I6", "offset fell", text)
        stands = move.next_offset


def _passed(facts: Facts, at: At, moves: list[Moved]) -> Iterator[Violation]:
    written: dict[str, Counter[int]] = defaultdict(Counter)
    anywhere: set[int] = set()
    for effect in facts.effects_at.get(at, []):
        written[effect.xid][effect.c_offset] += 1
        anywhere.add(effect.c_offset)
    for move in moves:
        if not move.is_batch:
            continue
        for offset in range(move.old_offset, move.next_offset):
            handled = written[move.xid][offset]
            changes = facts.settled.get((at, offset, move.xid), [])
            lettered = any(change.what != "DELETE" for change in changes)
            first = facts.first_of.get((at[1], at[2], offset), offset)
            if handled == 0 and not lettered and not facts.was_skipped(at, first):
                name = "effect and offset apart" if offset in anywhere else "effect lost"
                text = f"passed by transaction {move.xid}, which wrote neither effect nor letter"
                yield of_group(at, offset, "I6" if offset in anywhere else "I1", name, text)
            elif handled > 1:
                yield of_group(at, offset, "I6", "handled twice", f"{handled} effects in one batch")
            elif handled and lettered:
                yield of_group(at, offset, "I9", "handled and dead", "both, in one transaction")


def _apart(facts: Facts, at: At, effects: list[Effect]) -> Iterator[Violation]:
    """No effect without a batch that covers it, or a dead letter that was settled with it."""
    rightful: set[int] = set()
    stray: list[Effect] = []
    settled: set[int] = set()
    for effect in effects:
        batch = facts.batch_of.get((at, effect.xid))
        if batch is not None and batch.old_offset <= effect.c_offset < batch.next_offset:
            rightful.add(effect.c_offset)
        elif (at, effect.c_offset, effect.xid) in facts.settled:
            if effect.c_offset in rightful | settled:
                text = f"effect {effect.id}: it has one already"
                yield of_group(at, effect.c_offset, "I6", "handled twice", text)
            settled.add(effect.c_offset)
        else:
            stray.append(effect)
    seen: set[int] = set()
    for effect in stray:
        twice = effect.c_offset in rightful or effect.c_offset in seen
        seen.add(effect.c_offset)
        name = "handled twice" if twice else "effect without offset"
        text = (
            f"effect {effect.id} of transaction {effect.xid}, which did not move the offset past it"
        )
        yield of_group(at, effect.c_offset, "I6", name, text)


def _order(facts: Facts, at: At, effects: list[Effect]) -> Iterator[Violation]:
    """By insertion, effects go through the batches, and the offsets of each, in their order."""
    last = (-1, 0)
    for effect in effects:
        batch = facts.batch_of.get((at, effect.xid))
        if batch is None:
            continue
        place = (batch.id, effect.c_offset)
        if place < last:
            yield of_group(
                at, effect.c_offset, "I6", "effect out of order", f"after that of {last[1]}"
            )
        last = max(last, place)


def _content(facts: Facts, at: At, effects: list[Effect]) -> Iterator[Violation]:
    """The handler was given the event that is at that offset."""
    for effect in effects:
        event = facts.placed_at.get((at[1], at[2], effect.c_offset))
        if event is None:
            yield of_group(at, effect.c_offset, "I3", "ghost", "handled, and not in the log")
        elif (event.tag, event.key, event.transaction_id) != (
            effect.tag,
            effect.key,
            effect.transaction_id,
        ):
            text = f"the handler got {effect.tag}, the log has {event.tag}"
            yield of_group(at, effect.c_offset, "I3", "another event", text)
