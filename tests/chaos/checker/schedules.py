"""Schedules: one event a due time, not before it, and what its policy says of those that were missed."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from chaos.checker.later_rows import Fired, Later
from chaos.checker.rows import Placed
from chaos.checker.violation import Violation, about
from chaos.later_shop import Rhythm

SKIP_S = 60.0  # "skip" publishes nothing that is older
_TOLERANCE_S = 1e-3


def find_in(later: Later) -> Iterator[Violation]:
    """Look at the events of schedules, and at every move of their due times."""
    came: dict[str, dict[float, list[Placed]]] = defaultdict(lambda: defaultdict(list))
    for events in later.log.values():
        for event in events:
            if (found := due_of(event)) is not None:
                came[found[0]][found[1]].append(event)
    for rhythm in later.rhythms:
        fired = [each for each in later.fired if each.name == rhythm.name]
        yield from _doubled(rhythm, came[rhythm.name])
        yield from _forwards(rhythm, fired)
        yield from _told(rhythm, fired, came[rhythm.name])
        for each in fired:
            yield from _in_time(later, rhythm, each)
        for each, before in _passed(fired, came[rhythm.name]):
            newest = each.next_due_s - rhythm.period_s
            # What came before the clock was put back does not come again.
            if each.events or newest > max(before, default=0.0) + _TOLERANCE_S:
                yield from _as_said(later, rhythm, each, before)


def due_of(event: Placed) -> tuple[str, float] | None:
    """Return the schedule and the due time that an event is of."""
    headers = (event.seen or {}).get("headers") or {}
    if "gapless-schedule" not in headers:
        return None
    return headers["gapless-schedule"], datetime.fromisoformat(headers["gapless-due"]).timestamp()


def _doubled(rhythm: Rhythm, came: dict[float, list[Placed]]) -> Iterator[Violation]:
    for events in came.values():
        for again in events[1:]:
            text = f"it came at {events[0].partition_id}@{events[0].c_offset} for the same due time"
            yield about(again, "S1", "schedule doubled", text)
    first = [events[0] for _, events in sorted(came.items())]
    for one, other in pairwise(first):
        if one.partition_id == other.partition_id and other.c_offset < one.c_offset:
            yield about(other, "S4", "schedule out of turn", f"{rhythm.name} had come for later")


def _is_put_back(fired: Fired) -> bool:
    """Tell a move behind a clock that was ahead: the next due time from now on, and no event."""
    return fired.next_due_s < fired.old_due_s and not fired.events


def _passed(
    fired: list[Fired], came: dict[float, list[Placed]]
) -> Iterator[tuple[Fired, frozenset[float]]]:
    """Yield moves forwards, each with the due times whose events came by earlier ones."""
    known: set[float] = set()
    for each in fired:
        if not _is_put_back(each):
            yield each, frozenset(known)
            known |= _between(each, came)


def _between(fired: Fired, came: dict[float, list[Placed]]) -> set[float]:
    last = fired.last_due_s if fired.last_due_s is not None else fired.old_due_s
    return {due for due in came if fired.old_due_s - _TOLERANCE_S <= due <= last + _TOLERANCE_S}


def _forwards(rhythm: Rhythm, fired: list[Fired]) -> Iterator[Violation]:
    """The next due time is after the last one, and moves back only behind a clock that was ahead."""
    for each in fired:
        last = each.last_due_s if each.last_due_s is not None else each.old_due_s
        if each.next_due_s <= last or (
            each.next_due_s <= each.old_due_s and not _is_put_back(each)
        ):
            text = f"from {each.old_due_s:.0f} to {each.next_due_s:.0f}, the last one {last:.0f}"
            yield _of(rhythm, "S1", "schedule went back", text)
    for one, other in pairwise(fired):
        if other.old_due_s != one.next_due_s:
            text = (
                f"it was due at {one.next_due_s:.0f} next, and went on from {other.old_due_s:.0f}"
            )
            yield _of(rhythm, "S1", "schedule went back", text)


def _told(
    rhythm: Rhythm, fired: list[Fired], came: dict[float, list[Placed]]
) -> Iterator[Violation]:
    """There are as many events as the schedule says, for due times that it passed."""
    known = 0
    for each, before in _passed(fired, came):
        last = each.last_due_s if each.last_due_s is not None else each.old_due_s
        found = len(_between(each, came) - before)
        known += found
        if found != each.events:
            text = f"{each.events} published from {each.old_due_s:.0f} to {last:.0f}, {found} came"
            yield _of(rhythm, "S1", "due time lost", text)
    if known < len(came):
        text = f"{len(came) - known} events are of due times that it never passed"
        yield _of(rhythm, "S1", "ghost of a schedule", text)


def _in_time(later: Later, rhythm: Rhythm, fired: Fired) -> Iterator[Violation]:
    if fired.events and fired.last_due_s is not None:
        early_s = fired.last_due_s - later.latest(fired.began, fired.at)
        if early_s > 0:
            text = f"{rhythm.name} by {early_s:.3f} s"
            yield _of(rhythm, "S1", "schedule before its time", text)


def _as_said(
    later: Later, rhythm: Rhythm, fired: Fired, before: frozenset[float]
) -> Iterator[Violation]:
    """The policy of what was missed; due times that have had their events count for nothing."""
    had = {due for due in before if fired.old_due_s - _TOLERANCE_S <= due < fired.next_due_s}
    newest = fired.next_due_s - rhythm.period_s
    old_s = later.earliest(fired.began, fired.at) - newest
    young_s = later.latest(fired.began, fired.at) - newest
    wrong = ""
    if rhythm.missed == "all":
        wanted = round((fired.next_due_s - fired.old_due_s) / rhythm.period_s) - len(had)
        if fired.events != wanted:
            wrong = f"all: {wanted} were due, {fired.events} published"
    elif fired.events > 1 or (fired.events and old_s >= rhythm.period_s):
        wrong = f"{rhythm.missed}: {fired.events} published, the newest {old_s:.1f} s old"
    elif rhythm.missed == "once" and not fired.events:
        wrong = "once: nothing published"
    elif rhythm.missed == "skip" and bool(fired.events) and old_s > SKIP_S:
        wrong = f"skip: published what was {old_s:.1f} s old"
    elif rhythm.missed == "skip" and not fired.events and young_s <= SKIP_S:
        wrong = f"skip: let go what was {young_s:.1f} s old"
    if wrong:
        yield _of(rhythm, "S1", "missed otherwise than said", wrong)


def _of(rhythm: Rhythm, invariant: str, name: str, text: str) -> Violation:
    return Violation(invariant=invariant, name=name, text=f"{rhythm.name}: {text}")
