"""Subscriptions: a group with 10 000 of them, against one that is sent all events."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
from psycopg import Connection

import gapless
from benchmarks.drain import Drained, decoding, drain, new_group
from benchmarks.figure import Figure, Target, alternate
from benchmarks.fill import fill_outbox, make_topic
from benchmarks.queries import query
from benchmarks.server import Setup
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler

PAYLOAD_BYTES = 300
BATCH = 100
SERVER_US_MAX = 300
EVENTS_PER_S_MIN = 1000
NONE = "a group without subscriptions, decoding"


def run(setup: Setup) -> list[Figure]:
    """Fill one partition with events of all customers, and read it over and over."""
    events = setup.pick(2_000, 20_000, 100_000)
    customers = setup.pick(100, 10_000, 10_000)
    with setup.database("subscriptions") as dsn:
        make_topic(dsn, "outbox", partitions=1)
        fill_outbox(dsn, 1, events=events, payload_bytes=PAYLOAD_BYTES)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(query("give_customers"), {"customers": customers})
            conn.execute(query("analyze"))
        ours = f"{customers} subscriptions, each event matches one"
        few = f"{customers} subscriptions, 1 event of 100 matches"
        ways: dict[str, Callable[[], Drained]] = {
            ours: partial(_read, dsn, asking, events, customers),
            few: partial(_read, dsn, asking, events, customers // 100),
            NONE: partial(_read, dsn, decoding, events, 0),
        }
        results = alternate(setup.rounds, ways)
    return [
        figure for name in (ours, few) for figure in figures(results, name, NONE, has_targets=True)
    ]


def asking(unit: Unit, _conn: Connection[Any]) -> None:
    """Handle events by asking whom they matched."""
    for event in unit:
        assert event.subscriptions


def _read(dsn: str, function: Callable[..., None], events: int, customers: int) -> Drained:
    """Let a new group, with a subscription of each of so many customers, read all there is."""
    group = new_group("subscriptions")
    if customers:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(query("make_group"), {"group": group})
            conn.execute(query("subscribe_customers"), {"group": group, "customers": customers})
            conn.execute(query("analyze"))
    return read(dsn, function, group, events)


def read(dsn: str, function: Callable[..., None], group: str, events: int) -> Drained:
    """Let a group read all there is."""
    made: Handler = gapless.handler(topic="outbox", group=group, batch_size=BATCH)(function)
    return drain(dsn, [made], events=events, partitions=1)


def figures(
    results: dict[str, tuple[Drained, ...]], name: str, against: str, *, has_targets: bool
) -> list[Figure]:
    """Return the rate of one way to read beside another's, and what an event costs the server."""
    ours, theirs = results[name], results[against]
    return [
        Figure(
            what=name,
            unit="events/s",
            ours=tuple(each.per_s for each in ours),
            baseline=tuple(each.per_s for each in theirs),
            against=against,
            target=Target("value", at_least=EVENTS_PER_S_MIN) if has_targets else None,
        ),
        Figure(
            what=name,
            unit="µs server CPU/event",
            ours=_server_us(ours),
            baseline=_server_us(theirs),
            against=against,
            target=Target("value", at_most=SERVER_US_MAX) if has_targets else None,
        ),
    ]


def _server_us(results: tuple[Drained, ...]) -> tuple[float, ...]:
    """Return the CPU time of the server for an event, where it can be had."""
    found = (each.cost.server_us for each in results)
    return tuple(each for each in found if each is not None)
