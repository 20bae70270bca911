"""SQL conditions of subscriptions: ten texts, beside the same in jsonpath, and beside none."""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.drain import decoding, new_group
from benchmarks.figure import Figure
from benchmarks.server import Setup
from benchmarks.stepping import stepping
from benchmarks.subscriptions import NONE, TURN_EVENTS, figures, of_customers, reading, subscribed
from benchmarks.turns import take_turns

TEXTS = 10
IN_JSONPATH = "the same in jsonpath"


def run(setup: Setup) -> list[Figure]:
    """Fill one partition with events of all customers, and let groups read it in turns."""
    events = setup.pick(2_000, 10_000, 30_000)
    customers = setup.pick(100, 10_000, 10_000)
    all_of = f"{customers} subscriptions of {TEXTS} SQL conditions, each event matches one"
    asked = f"{TEXTS} SQL conditions, asked of each event"
    subscribing = {
        all_of: "subscribe_by_sql_and_value",
        asked: "subscribe_by_sql",
        IN_JSONPATH: "subscribe_by_jsonpath",
    }
    with of_customers(setup, "conditions", events, customers) as dsn, ExitStack() as stack:
        groups = {
            name: subscribed(dsn, subscribe, customers=customers, texts=TEXTS)
            for name, subscribe in subscribing.items()
        }
        groups[NONE] = reading(new_group("conditions"), decoding)
        sides = {name: stack.enter_context(stepping(dsn, each)) for name, each in groups.items()}
        turns = take_turns(dsn, sides, turn_events=TURN_EVENTS)
    results = turns.drained()
    return [
        *figures(results, all_of, NONE, has_targets=True),
        *figures(results, asked, IN_JSONPATH, has_targets=False),
        *figures(results, asked, NONE, has_targets=False),
        *turns.noise(all_of, all_of),
    ]
