"""What `gapless replay` prints: what would be done, what was tried, what was done."""

from __future__ import annotations

from dataclasses import asdict

from gapless.cli.screen import remark, say, show
from gapless.ops.replay.plan import ReplayPlan, ReplaySlice
from gapless.ops.replay.run import ReplayResult
from gapless.ops.replay.tally import ReplayTrial
from gapless.ops.text import json_text, plain, quantity

_UNIT = {"transaction": "transaction", "user": "run of a user's events"}


def print_plan(plan: ReplayPlan, *, as_json: bool) -> None:
    """Print what would be handled, how, and with which effects."""
    if as_json:
        say(json_text(asdict(plan), indent=2))
    else:
        _print_plan(plan)
    remark(
        f"nothing was done: {quantity(plan.events, 'event')} would be handled; --yes does it, "
        "--dry-run tries it and rolls it back"
    )


def _print_plan(plan: ReplayPlan) -> None:
    call = "one call for each claim" if plan.batch else f"one call for each {_UNIT[plan.group_by]}"
    say(f"handler: {plan.handler}, {call}; claims of {quantity(plan.batch_size, 'event')}")
    if plan.takes is not None:
        say(plain(f"takes: {plan.takes}, as the handler says; all else of the range is passed"))
    say(
        f'effects: exactly once in database "{plan.database}" of the server at {plan.server}, as '
        "far as it uses the connection it is given; what it does elsewhere is done again"
    )
    if plan.partitions:
        show(ReplaySlice, plan.partitions, as_json=False)


def print_trial(tried: ReplayTrial, *, as_json: bool) -> None:
    """Print what became of a dry run."""
    if as_json:
        say(json_text({"dry_run": True, **asdict(tried)}, indent=2))
    else:
        skipped = f", {tried.skipped:,} skipped" if tried.skipped else ""
        fail = f"{tried.failed:,} would fail" + (":" if tried.failed else "")
        say(f"{quantity(tried.handled, 'unit')} would be handled{skipped}, {fail}")
        for each in tried.failures:
            say(plain(f"  {each.topic}/{each.partition}@{each.offset}: {each.error}"))
        if tried.failed > len(tried.failures):
            say(f"  and {tried.failed - len(tried.failures):,} more")
    remark(f"nothing was changed: {quantity(tried.events, 'event')} were handled and rolled back")


def print_result(result: ReplayResult, did: int, *, as_json: bool) -> None:
    """Print what a replay came to; did: events that were handled here."""
    if as_json:
        say(json_text(asdict(result)))
    elif not result.finished:
        say(f"{quantity(did, 'event')} done here; others are still at replay {result.name}")
    elif result.dead_units:
        handled = result.done - result.dead_events
        say(
            f"replayed {quantity(result.done, 'event')}: {handled:,} handled, "
            f"{result.dead_events:,} in {quantity(result.dead_units, 'dead letter')}: "
            f"gapless dlq list --group {result.name}; then gapless replay --remove {result.name}"
        )
    else:
        say(f"replayed {quantity(result.done, 'event')}: all handled")
