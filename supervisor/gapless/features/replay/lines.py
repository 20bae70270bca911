"""A replay as text: its plan, the result of a dry run, the result of a run."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.features.replay.plan import ReplayPlan
from gapless.features.replay.run import ReplayResult
from gapless.features.replay.tally import ReplayTrial
from gapless.ops.text import plain, quantity

_UNIT = {"transaction": "transaction", "user": "run of a user's events"}


def plan_lines(plan: ReplayPlan) -> Iterator[str]:
    """Yield how events would be handled, and with which effects; each partition has its count."""
    call = "one call for each claim" if plan.batch else f"one call for each {_UNIT[plan.group_by]}"
    yield f"handler: {plan.handler}, {call}; claims of {quantity(plan.batch_size, 'event')}"
    if plan.takes is not None:
        yield plain(f"takes: {plan.takes}, as the handler says; all else of the range is passed")
    yield (
        f'effects: exactly once in database "{plan.database}" of the server at {plan.server}, as '
        "far as it uses the connection it is given; effects elsewhere happen again"
    )


def trial_lines(tried: ReplayTrial) -> Iterator[str]:
    """Yield the outcomes of the units of a dry run, and the first failures."""
    skipped = f", {tried.skipped:,} skipped" if tried.skipped else ""
    fail = f"{tried.failed:,} would fail" + (":" if tried.failed else "")
    yield f"{quantity(tried.handled, 'unit')} would be handled{skipped}, {fail}"
    for each in tried.failures:
        yield plain(f"  {each.topic}/{each.partition}@{each.offset}: {each.error}")
    if tried.failed > len(tried.failures):
        yield f"  and {tried.failed - len(tried.failures):,} more"


def result_line(result: ReplayResult, did: int) -> str:
    """Return the result of a replay, and advice about dead letters; did: events handled here."""
    if not result.finished:
        return f"{quantity(did, 'event')} done here; others are still at replay {result.name}"
    done = f"replayed {quantity(result.done, 'event')}"
    if not result.dead_units:
        return f"{done}: all handled"
    return (
        f"{done}: {result.done - result.dead_events:,} handled, "
        f"{result.dead_events:,} in {quantity(result.dead_units, 'dead letter')}: "
        f"gapless dlq list --group {result.name}; then gapless replay --remove {result.name}"
    )
