"""The shortest history that shows a violation: what happened to one event, attempt or partition."""

from collections.abc import Iterator

from chaos.chain import root_of
from chaos.checker.facts import At, Facts
from chaos.checker.rows import Moved
from chaos.checker.violation import Violation
from chaos.history import Begun, Fault, Invoke, Outcome

LINES_MAX = 40
Line = tuple[float, str]  # seconds on the server's clock


def tell(facts: Facts, violation: Violation) -> tuple[str, ...]:
    """Return the lines of the history of one violation, in the order of time."""
    lines: list[Line] = []
    offset, tag = violation.offset, violation.tag
    if tag is None and offset is not None and violation.topic and violation.partition is not None:
        events = facts.log.get((violation.topic, violation.partition), [])
        tag = next((event.tag for event in events if event.c_offset == offset), None)
    attempt = violation.attempt
    if attempt is None and (root := root_of(tag)) in facts.sent:
        attempt = facts.sent[root][0].invoke.attempt
    if attempt is not None:
        lines += _published(facts, attempt)
    for at in facts.moves:
        if _fits(violation, at):
            lines += _of_partition(facts, at, violation)
    if lines:
        lines += _faults(facts, min(lines)[0], max(lines)[0])
    lines.sort()
    start = lines[0][0] if lines else 0.0
    told = [f"{at_s - start:9.3f} s  {text}" for at_s, text in lines[:LINES_MAX]]
    placed = _placed(facts, tag)
    return (*placed, *told)


def _fits(violation: Violation, at: At) -> bool:
    wanted = (violation.group, violation.topic, violation.partition)
    return all(want is None or want == have for want, have in zip(wanted, at, strict=True))


def _placed(facts: Facts, tag: str | None) -> tuple[str, ...]:
    return tuple(
        f"{tag} is at {event.topic}/{event.partition_id}@{event.c_offset}, id {event.id}, xid {event.xid}"
        + (f", cause {event.cause}" if event.cause else "")
        for event in facts.by_tag.get(tag or "", ())
    )


def _published(facts: Facts, attempt: str) -> Iterator[Line]:
    for record in facts.records:
        if getattr(record, "attempt", None) != attempt:
            continue
        match record:
            case Invoke():
                tags = ", ".join(event.tag for event in record.events)
                text = f"{record.producer} tries order {record.order}: {tags}"
            case Begun():
                text = f"begun as xid {record.xid}"
            case Outcome():
                text = f"ended: {record.ended}"
            case _:
                continue
        yield _seconds(facts, record.at_ns), text


def _of_partition(facts: Facts, at: At, violation: Violation) -> Iterator[Line]:
    offset = violation.offset
    effects = [e for e in facts.effects_at.get(at, []) if e.c_offset == offset]
    near = [m for m in facts.moves[at] if offset is None or m.old_offset <= offset < m.next_offset]
    epochs = {each.epoch for each in (*effects, *near)}
    yield from _moves([m for m in facts.moves[at] if m.epoch in epochs], {m.id for m in near})
    if violation.invariant == "I7":
        yield from _leases(facts, at)
    for effect in effects:
        yield (
            effect.at,
            (
                f"effect {effect.id} of offset {offset}, xid {effect.xid}, epoch {effect.epoch}, "
                f"session {effect.backend_pid}, process {effect.pid}"
            ),
        )
    for letter in facts.lettered.get(at, []):
        if letter.c_offset == offset:
            text = f"letter of offset {offset}: {letter.what} {letter.status}, xid {letter.xid}"
            yield letter.at, text


def _moves(moves: list[Moved], near: set[int]) -> Iterator[Line]:
    for move in moves:
        if move.is_install:
            text = f"fence: epoch {move.old_epoch} -> {move.epoch}, session {move.backend_pid}"
            yield move.at, text
        if move.is_batch and move.id in near:
            yield (
                move.at,
                (
                    f"batch {move.old_offset}..{move.next_offset - 1}, xid {move.xid}, "
                    f"epoch {move.epoch}, session {move.backend_pid}"
                ),
            )


def _leases(facts: Facts, at: At) -> Iterator[Line]:
    for change in facts.leases.get(at, []):
        yield (
            change.at,
            (
                f"lease: {_name(change.old_owner)} -> {_name(change.owner)}, for "
                f"{_name(change.target)}, epoch {change.epoch}"
            ),
        )


def _faults(facts: Facts, since_s: float, until_s: float) -> Iterator[Line]:
    for record in facts.records:
        if isinstance(record, Fault):
            at_s = _seconds(facts, record.at_ns)
            if since_s - 5 <= at_s <= until_s:
                yield at_s, f"fault {record.kind} on {record.target}: {record.phase}"


def _seconds(facts: Facts, at_ns: int) -> float:
    return (at_ns + facts.clock_ns) / 1e9


def _name(member: object) -> str:
    return str(member)[:8]
