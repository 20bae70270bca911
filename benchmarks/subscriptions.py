"""Subscriptions: a group with 10 000 of them, against one that receives all events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from typing import Any

import psycopg
from psycopg import Connection

import gapless
from benchmarks.drain import Drained, decoding, new_group
from benchmarks.figure import Figure, Target, compared
from benchmarks.fill import fill_outbox, make_topic
from benchmarks.queries import query
from benchmarks.server import Setup
from benchmarks.stepping import stepping
from benchmarks.turns import take_turns
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler

PAYLOAD_BYTES = 300
BATCH = 100
TURN_EVENTS = 1_000
SERVER_US_MAX = 300
EVENTS_PER_S_MIN = 1000
NONE = "a group without subscriptions, decoding"


def run(setup: Setup) -> list[Figure]:
    """Fill one partition with events of all customers, and let groups read it in turns."""
    events = setup.pick(2_000, 20_000, 60_000)
    customers = setup.pick(100, 10_000, 10_000)
    ours = f"{customers} subscriptions, each event matches one"
    few = f"{customers} subscriptions, 1 event of 100 matches"
    with of_customers(setup, "subscriptions", events, customers) as dsn, ExitStack() as stack:
        groups = {
            ours: subscribed(dsn, "subscribe_customers", customers=customers),
            few: subscribed(dsn, "subscribe_customers", customers=customers // 100),
            NONE: reading(new_group("subscriptions"), decoding),
        }
        sides = {name: stack.enter_context(stepping(dsn, each)) for name, each in groups.items()}
        turns = take_turns(dsn, sides, turn_events=TURN_EVENTS)
    results = turns.drained()
    return [
        *figures(results, ours, NONE, has_targets=True),
        *figures(results, few, NONE, has_targets=True),
        *turns.noise(f"{customers} subscriptions", ours),
    ]


@contextmanager
def of_customers(setup: Setup, purpose: str, events: int, customers: int) -> Iterator[str]:
    """Yield a database with one partition, with events of all customers."""
    with setup.database(purpose) as dsn:
        make_topic(dsn, "outbox", partitions=1)
        fill_outbox(dsn, 1, events=events, payload_bytes=PAYLOAD_BYTES)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(query("give_customers"), {"customers": customers})
            conn.execute(query("analyze"))
        yield dsn


def asking(unit: Unit, _conn: Connection[Any]) -> None:
    """Handle events by reading the subscriptions that they matched."""
    for event in unit:
        assert event.subscriptions


def subscribed(dsn: str, name: str, **params: int) -> Handler:
    """Return the handler of a new group, with the subscriptions that the named query makes."""
    group = new_group("subscriptions")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(query("make_group"), {"group": group})
        conn.execute(query(name), {"group": group, **params})
        conn.execute(query("analyze"))
    return reading(group, asking)


def reading(group: str, function: Callable[..., None]) -> Handler:
    return gapless.handler(topic="outbox", group=group, batch_size=BATCH)(function)


def figures(
    results: dict[str, tuple[Drained, ...]], name: str, against: str, *, has_targets: bool
) -> list[Figure]:
    """Return the rate of one way to read beside another's, and the server's cost of an event."""
    sides = results[name], results[against], against
    at_least, at_most = (
        Target("value", at_least=EVENTS_PER_S_MIN) if has_targets else None,
        Target("value", at_most=SERVER_US_MAX) if has_targets else None,
    )
    server_us = attrgetter("cost.server_us")
    return [
        compared(name, "events/s", attrgetter("per_s"), sides, at_least),
        compared(name, "µs server CPU/event", server_us, sides, at_most),
    ]
