"""Filters: a group that needs 2 of 200 types, against one that receives all of them."""

from __future__ import annotations

from contextlib import ExitStack

import psycopg

import gapless
from benchmarks.drain import Drained, decoding, drained_figures, new_group, noop
from benchmarks.figure import Figure, Target
from benchmarks.fill import fill_outbox, make_topic
from benchmarks.queries import query
from benchmarks.server import Setup
from benchmarks.stepping import stepping
from benchmarks.turns import take_turns
from gapless.consume.user.handler import Handler
from gapless.features.filters.reader import SCAN_EVENTS_MAX

PAYLOAD_BYTES = 300
TYPES = 200
TAKEN = ("type-7", "type-107")
BATCH = 100
ALL = "a group that takes all"
ALL_DECODED = "a group that takes all, decoding"
SOME = "2 of 200 types"
SOME_WHERE = "2 of 200 types, and a condition"


def run(setup: Setup) -> list[Figure]:
    """Fill one partition with events of 200 types, and let groups read it in turns."""
    events = setup.pick(20_000, 100_000, 200_000)
    with setup.database("filters") as dsn, ExitStack() as stack:
        make_topic(dsn, "outbox", partitions=1)
        fill_outbox(dsn, 1, events=events, payload_bytes=PAYLOAD_BYTES)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(query("give_types"), {"types": TYPES})
            conn.execute(query("analyze"))
        ways = {
            ALL: _handler(noop),
            ALL_DECODED: _handler(decoding),
            SOME: _handler(decoding, event_types=TAKEN),
            SOME_WHERE: _handler(decoding, event_types=TAKEN, where="exists ($.pad)"),
        }
        sides = {name: stack.enter_context(stepping(dsn, way)) for name, way in ways.items()}
        turns = take_turns(dsn, sides, turn_events=SCAN_EVENTS_MAX)
    results = turns.drained()
    return [
        *_figures(results, SOME, ALL_DECODED, Target("ratio", at_least=5)),
        *_figures(results, SOME, ALL, None),
        *_figures(results, SOME_WHERE, ALL_DECODED, None),
        *turns.noise(f"200 types, batch {BATCH}", ALL),
    ]


def _handler(function: object, **options: object) -> Handler:
    """Return a handler of a group that has read no event yet."""
    group = new_group("filters")
    decorate = gapless.handler(topic="outbox", group=group, batch_size=BATCH, **options)  # type: ignore[call-overload]
    made: Handler = decorate(function)
    return made


def _figures(
    results: dict[str, tuple[Drained, ...]], name: str, against: str, target: Target | None
) -> list[Figure]:
    what = f"200 types, batch {BATCH}: {name}"
    return drained_figures(what, results[name], results[against], against, target)[:2]
