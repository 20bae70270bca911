"""Ask the SQL conditions of a group's subscriptions about a claim.

The statements run in the claim's transaction, each by itself: a server's time limit is for a whole
statement. Conditions that raise, or are too slow, are found by halves, and stopped alone
(sql/features/filters/functions/ask_conditions.sql).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from psycopg import Connection

from gapless.consume.read.claim import UnsettledError
from gapless.consume.session import run, run_before, transaction
from gapless.consume.unit import UnitRanges
from gapless.failpoints import hit
from gapless.features.filters.filtered import Kept
from gapless.features.filters.matches import Matches, find_matches
from gapless.keys import Assignment

LIMIT_S = 5.0
"""The time limit for all conditions of a group about one claim, when one statement asks them, and
for a single condition about one claim."""

log = logging.getLogger("gapless.worker")


class ConditionError(UnsettledError):
    """SQL conditions of subscriptions raised, or were slow: these have to be stopped first.

    reasons: by subscription_id, one line each.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        some = next(iter(reasons.values()), "")
        super().__init__(f"{len(reasons)} subscriptions have to be stopped: {some}")
        self.reasons = reasons

    def settle(self, conn: Connection[Any], assignment: Assignment) -> bool:
        """Stop these subscriptions in this partition, and say so in the log."""
        hit("condition.raised")
        with transaction(conn):
            stopped = stop_subscriptions(conn, assignment, self.reasons)
            hit("condition.stopped")
        hit("condition.committed")
        if stopped is None:
            return False
        why = next(iter(self.reasons.values()))
        place = assignment.partition
        log.error("%s: subscriptions stopped: %s, the first one: %s", place, stopped, why)
        return True


def with_conditions(
    conn: Connection[Any], assignment: Assignment, whole: UnitRanges, kept: Kept
) -> Kept:
    """Return the kept events of a claim with those of the SQL conditions added; count them.

    Raises as ask_conditions() does.
    """
    known: Matches = kept.matches or {}
    hit("condition.claimed")
    asked = ask_conditions(conn, assignment, whole)
    offsets = sorted({*kept.offsets, *asked})
    matches = {
        offset: tuple(
            sorted(
                (*known.get(offset, ()), *asked.get(offset, ())),
                key=lambda each: each.subscription_id,
            )
        )
        for offset in offsets
    }
    first = whole.first_offset
    errors = [kept.errors.get(offset) for offset in offsets] if kept.errors else None
    counted = {"events": len(whole.ids), "kept_offsets": offsets, "filter_errors": errors}
    run(conn, "tally_filter", {**assignment.partition.params, **counted})
    ids = [whole.ids[offset - first] for offset in offsets]
    return replace(kept, ids=ids, offsets=offsets, matches=matches)


def ask_conditions(conn: Connection[Any], assignment: Assignment, spans: UnitRanges) -> Matches:
    """Return the subscriptions with a condition that match each event of a claim, by offset.

    Before: the transaction of the claim is open. Raises ConditionError when some of them have to be
    stopped first: no event may be passed before stop_subscriptions() has committed.
    Bound: LIMIT_S for each statement; there is one, and for each slow subscription two for each
    doubling of the subscriptions of its text.
    """
    found: list[tuple[int, str]] = []
    reasons: dict[int, str] = {}
    left: list[list[int] | None] = [None]  # all
    params = {
        **assignment.partition.params,
        "message_ids": spans.ids,
        "first_offset": spans.first_offset,
    }
    while left:
        only = left.pop()
        with limited(conn, LIMIT_S):
            asked = run(conn, "ask_conditions", {**params, "only": only})[0]
        offsets, matched, failed, why, slow, rest = asked
        found += zip(offsets, matched, strict=True)
        reasons.update(zip(failed, why, strict=True))
        left += next_asked(only, slow, rest)
        if is_too_slow(only, slow):
            events = len(spans.ids)
            reasons[slow[0]] = f"it takes longer than {LIMIT_S:g} s for {events} events"
    if reasons:
        raise ConditionError(reasons)
    return find_matches(conn, *_together(found))


@contextmanager
def limited(conn: Connection[Any], limit_s: float) -> Iterator[None]:
    """Give the statement of the block limit_s, instead of the handlers' time; it MUST be one."""
    run_before(conn, "limit_conditions", {"limit": f"{round(limit_s * 1000)}ms"})
    yield
    run_before(conn, "put_timeout_back")


def is_too_slow(only: Sequence[int] | None, slow: Sequence[int]) -> bool:
    """Tell whether one subscription that was asked alone took all the time: it is its own fault."""
    return len(slow) == 1 and only is not None and list(only) == list(slow)


def next_asked(
    only: Sequence[int] | None, slow: Sequence[int], rest: Sequence[int]
) -> list[list[int] | None]:
    """Return the next statements after one about `only` (None: all), the last one first.

    slow: the subscriptions that were being asked when its time was over, rest: those after them.
    """
    parts: list[list[int] | None] = [list(rest)] if rest else []
    if len(slow) == 1 and not is_too_slow(only, slow):
        parts.append(list(slow))  # perhaps the time went to others before it
    elif len(slow) > 1:
        parts += [list(slow[: len(slow) // 2]), list(slow[len(slow) // 2 :])]
    return parts


def stop_subscriptions(
    conn: Connection[Any], assignment: Assignment, reasons: Mapping[int, str]
) -> int | None:
    """Stop subscriptions in this partition, and commit; return how many, None when fenced."""
    params = {**assignment.params, "ids": list(reasons), "reasons": list(reasons.values())}
    return None if (done := run(conn, "stop_subscriptions", params)[0][0]) is None else int(done)


def _together(found: Sequence[tuple[int, str]]) -> tuple[list[int], list[str]]:
    """Return each offset once, ascending, with all subscriptions that match it."""
    numbers: dict[int, list[int]] = {}
    for offset, each in found:
        numbers.setdefault(offset, []).extend(int(n) for n in each.split(","))
    offsets = sorted(numbers)
    return offsets, [",".join(map(str, sorted(numbers[offset]))) for offset in offsets]
