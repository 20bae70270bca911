"""Ask the SQL conditions of a group's subscriptions about what was claimed.

In the claim's transaction, and each time as a statement of its own: a server has a time limit for
nothing less. What raises, or is too slow, is found by halves, and stopped alone
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
from gapless.keys import Assignment, partition_params

LIMIT_S = 5.0
"""How long the conditions of a group may take about one claim, as long as they are asked at once;
and one of them about one claim."""

log = logging.getLogger("gapless.worker")


class ConditionError(UnsettledError):
    """SQL conditions of subscriptions raised, or were slow: these are to be stopped first.

    reasons: by subscription_id, one line each.
    """

    def __init__(self, reasons: Mapping[int, str]) -> None:
        some = next(iter(reasons.values()), "")
        super().__init__(f"{len(reasons)} subscriptions have to be stopped: {some}")
        self.reasons = reasons

    def settle(self, conn: Connection[Any], assignment: Assignment) -> bool:
        """Set them apart in this partition, and say so in the log."""
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
    """Return what is kept of a claim when the SQL conditions are asked, too; count it.

    Raises what ask_conditions() does.
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
    run(conn, "tally_filter", {**partition_params(assignment.partition), **counted})
    ids = [whole.ids[offset - first] for offset in offsets]
    return replace(kept, ids=ids, offsets=offsets, matches=matches)


def ask_conditions(conn: Connection[Any], assignment: Assignment, spans: UnitRanges) -> Matches:
    """Return which subscriptions with a condition match which events of a claim, by offset.

    Before: the transaction of the claim is open. Raises ConditionError when some of them have to be
    stopped first: nothing may be passed before stop_subscriptions() has committed.
    Bound: each statement LIMIT_S; there is one, and for each that is slow two for each doubling of
    the subscriptions of its text.
    """
    found: list[tuple[int, str]] = []
    reasons: dict[int, str] = {}
    left: list[list[int] | None] = [None]  # all
    params = {
        **partition_params(assignment.partition),
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
    """Give the statement of the block so much time, instead of the handlers'; it MUST be one."""
    run_before(conn, "limit_conditions", {"limit": f"{round(limit_s * 1000)}ms"})
    yield
    run_before(conn, "put_timeout_back")


def is_too_slow(only: Sequence[int] | None, slow: Sequence[int]) -> bool:
    """Tell whether the time was over for one that was asked alone: then it is its own fault."""
    return len(slow) == 1 and only is not None and list(only) == list(slow)


def next_asked(
    only: Sequence[int] | None, slow: Sequence[int], rest: Sequence[int]
) -> list[list[int] | None]:
    """Return what to ask after a statement that was about `only` (None: all), the last one first.

    slow: those that were being asked when its time was over, rest: those it had not come to.
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
    """Return each offset once, ascending, with all that match it."""
    numbers: dict[int, list[int]] = {}
    for offset, each in found:
        numbers.setdefault(offset, []).extend(int(n) for n in each.split(","))
    offsets = sorted(numbers)
    return offsets, [",".join(map(str, sorted(numbers[offset]))) for offset in offsets]
