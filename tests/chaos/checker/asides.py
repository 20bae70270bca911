"""What was set aside: its states in turn, attempts counted rightly, retries when they were asked for.

An attempt is counted when a handler failed, and by nothing else: not by an error that is the
environment's, not by a call that never ended.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from chaos.checker.facts import At, Facts
from chaos.checker.failures import Aside
from chaos.checker.violation import Violation, of_group
from chaos.deeds import AGAIN_S
from chaos.history import Asked, Fault, Grouped, select

_TURNS = {
    None: {"waiting", "parked", "dead"},
    "waiting": {"waiting", "dead", "redriven", "discarded"},
    "parked": {"waiting", "discarded"},
    "dead": {"waiting", "discarded"},
    "redriven": set[str](),
    "discarded": set[str](),
}
_FAILED = ("raised", "retry", "dead")
_RETRY = "gapless.Retry"
_DEAD_LETTER = "gapless.DeadLetter"
_TROUBLE = ("08", "40", "53", "57", "58")  # classes of SQLSTATE
DEATHS_MAX = 8  # of workers at one unit, until it is given up: a few are not to be told from others
EARLY_S = 0.001


def find(facts: Facts) -> Iterator[Violation]:
    for (at, _), asides in facts.asides_of.items():
        group = facts.groups.get(at[0])
        yield from _turns(at, asides)
        yield from _tries(at, asides)
        yield from _trouble(at, asides)
        if group is not None:
            yield from _counts(facts, at, asides)
            yield from _delays(at, asides, group)
            yield from _given_up(at, asides, group)
            yield from _policy(at, asides, group)
    yield from _deaths(facts)
    yield from _asked(facts)


def _turns(at: At, asides: list[Aside]) -> Iterator[Violation]:
    for each in asides:
        if each.what == "DELETE":
            if each.state != "redriven":
                yield _about(at, each, "forgotten", f"it was {each.state}, and is there no more")
        elif each.state not in _TURNS[each.old_state]:
            yield _about(at, each, "state out of turn", f"{each.old_state} -> {each.state}")
        if each.state == "discarded" and not (each.discard_reason or "").strip():
            yield _about(at, each, "discarded without a reason", "and nobody knows why")


def _tries(at: At, asides: list[Aside]) -> Iterator[Violation]:
    for before, each in pairwise(asides):
        began = each.crashes > before.crashes or each.state == "redriven"
        if before.state == "waiting" and began and each.at < (before.due or 0):
            text = f"{(before.due or 0) - each.at:.3f} s before it was due"
            yield _about(at, each, "tried too early", text)


def _trouble(at: At, asides: list[Aside]) -> Iterator[Violation]:
    for each in asides:
        state = each.sqlstate or ""
        lost = each.exception_class == "psycopg.OperationalError" and not state
        if each.what != "DELETE" and (state.startswith(_TROUBLE) or lost):
            yield _about(at, each, "trouble counted", f"set aside for {each.reason}")


def _counts(facts: Facts, at: At, asides: list[Aside]) -> Iterator[Violation]:
    counted = 0
    for before, each in pairwise([None, *asides]):
        assert each is not None
        more = each.attempts - (before.attempts if before else 0)
        if each.is_death and before is None:
            continue
        if each.what != "INSERT" and more not in (0, 1):
            yield _about(at, each, "attempts miscounted", f"{more} more at once")
        if each.what == "INSERT" and more != int(each.state != "parked"):
            yield _about(at, each, "attempts miscounted", f"{more} when it was set aside")
        counted += more
    place = (at, asides[0].first_offset)
    failed = sum(each.how in _FAILED for each in facts.handlings_of.get(place, ()))
    if counted > failed:
        text = f"{counted} attempts are counted, its handler failed {failed} times"
        yield _about(at, asides[-1], "attempts miscounted", text)


def _delays(at: At, asides: list[Aside], group: Grouped) -> Iterator[Violation]:
    for before, each in pairwise([None, *asides]):
        assert each is not None
        failed = before is None or each.attempts > before.attempts
        if each.state != "waiting" or not failed:
            continue
        if each.exception_class == _RETRY:
            wanted_s = AGAIN_S
        elif each.attempts <= len(group.delays_s):
            wanted_s = group.delays_s[each.attempts - 1]
        else:
            yield _about(at, each, "not given up", f"after {each.attempts} attempts")
            continue
        if (each.due or 0) - each.failed < wanted_s - EARLY_S:
            text = f"{(each.due or 0) - each.failed:.3f} s instead of {wanted_s} s"
            yield _about(at, each, "retried too early", text)


def _given_up(at: At, asides: list[Aside], group: Grouped) -> Iterator[Violation]:
    """A unit is dead when its attempts are used up, unless its handler wished, or killed, or a person."""
    if group.on_failure not in ("retry", "park-key"):
        return
    for each in asides:
        if each.is_death or each.asked is not None or each.exception_class == _DEAD_LETTER:
            return
        if each.state == "dead" and each.attempts <= len(group.delays_s):
            yield _about(at, each, "given up too early", f"after {each.attempts} attempts")


def _policy(at: At, asides: list[Aside], group: Grouped) -> Iterator[Violation]:
    wished = (_RETRY, _DEAD_LETTER)
    first = asides[0]
    if group.on_failure == "block" and first.exception_class not in wished:
        yield _about(at, first, "set aside under block", first.reason)
    if first.state == "parked" and group.on_failure != "park-key":
        yield _about(at, first, "parked without a policy", first.reason)


def _deaths(facts: Facts) -> Iterator[Violation]:
    """A unit kills so many workers, and then it is not called any more (I8).

    A fault that ends a worker at the same time hides one of its deaths: nobody can tell them apart.
    """
    faults = sorted(each.at_ns for each in select(facts.records, Fault) if each.phase == "begin")
    for (at, offset), handlings in facts.handlings_of.items():
        if facts.group(at).on_failure == "block":
            continue
        asked = {each.asked for each in facts.asides_of.get((at, offset), ()) if each.asked}
        deaths = sum(1 if each.phase == "begin" else -1 for each in handlings)
        if deaths <= DEATHS_MAX * (1 + len(asked)):
            continue
        times = [each.at_ns for each in handlings]
        hidden = bisect_right(faults, max(times)) - bisect_left(faults, min(times))
        if deaths > DEATHS_MAX * (1 + len(asked)) + hidden:
            text = f"{deaths} workers began it, and did not end"
            yield of_group(at, offset, "I8", "killed too often", text)


def _asked(facts: Facts) -> Iterator[Violation]:
    """Of people who discard a unit at once, one does."""
    told: dict[tuple[str, str], int] = defaultdict(int)
    for record in select(facts.records, Asked):
        if record.verb == "discard":  # to who redrives it is what became of the unit
            for place, outcome in record.units:
                told[record.together, place] += outcome == "discarded"
    for (_, place), times in told.items():
        if times > 1:
            text = f"{place}: {times} people were told that they did"
            yield Violation(invariant="I9", name="discarded twice", text=text)


def _about(at: At, aside: Aside, name: str, text: str) -> Violation:
    return of_group(at, aside.first_offset, "I9", name, text)
