"""SQL conditions of subscriptions: ten texts, beside the same in jsonpath, and beside none."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import psycopg

from benchmarks.drain import Drained, decoding, new_group
from benchmarks.figure import Figure, alternate
from benchmarks.fill import fill_outbox, make_topic
from benchmarks.queries import query
from benchmarks.server import Setup
from benchmarks.subscriptions import NONE, PAYLOAD_BYTES, asking, figures, read

TEXTS = 10
IN_JSONPATH = "the same in jsonpath"


def run(setup: Setup) -> list[Figure]:
    """Fill one partition with events of all customers, and read it over and over."""
    events = setup.pick(2_000, 20_000, 100_000)
    customers = setup.pick(100, 10_000, 10_000)
    all_of = f"{customers} subscriptions of {TEXTS} SQL conditions, each event matches one"
    asked = f"{TEXTS} SQL conditions, asked of each event"
    with setup.database("conditions") as dsn:
        make_topic(dsn, "outbox", partitions=1)
        fill_outbox(dsn, 1, events=events, payload_bytes=PAYLOAD_BYTES)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(query("give_customers"), {"customers": customers})
            conn.execute(query("analyze"))
        ways: dict[str, Callable[[], Drained]] = {
            name: partial(_read, dsn, subscribe, events, customers)
            for name, subscribe in (
                (all_of, "subscribe_by_sql_and_value"),
                (asked, "subscribe_by_sql"),
                (IN_JSONPATH, "subscribe_by_jsonpath"),
                (NONE, ""),
            )
        }
        results = alternate(setup.rounds, ways)
    return [
        *figures(results, all_of, NONE, has_targets=True),
        *figures(results, asked, IN_JSONPATH, has_targets=False),
        *figures(results, asked, NONE, has_targets=False),
    ]


def _read(dsn: str, subscribe: str, events: int, customers: int) -> Drained:
    """Let a new group read all there is, with what the query of that name subscribes."""
    group = new_group("conditions")
    if subscribe:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(query("make_group"), {"group": group})
            conn.execute(query(subscribe), {"group": group, "customers": customers, "texts": TEXTS})
            conn.execute(query("analyze"))
    return read(dsn, asking if subscribe else decoding, group, events)
