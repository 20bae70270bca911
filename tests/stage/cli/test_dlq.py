"""dlq: what was refused and why, all of it, and harmless on a terminal."""

from __future__ import annotations

import psycopg
import pytest

import gapless as package
from gapless.log.event import NewEvent
from gapless.log.publish import publish
from gapless.log.topics import ensure_topic
from gapless.testing import drain

PAYLOAD = b'{"total": 1.10, "total": 2, "note": "\xc2\x9b\\u0000"}'


@pytest.fixture
def letters(conn: psycopg.Connection, dsn: str) -> None:
    """A unit of two events that failed, and one of one, in group billing."""
    ensure_topic(conn, "orders", partitions=1)
    publish(conn, "orders", [NewEvent(payload=PAYLOAD, key="a", headers={"h": 1})] * 2)
    publish(conn, "orders", 1, key="b")
    publish(conn, "orders", 2, key="\x1b[31m", event_type="t")

    @package.handler(topic="orders", group="billing")
    def refuse(unit: package.Unit, conn: object) -> None:
        if next(iter(unit)).key != "b":
            raise ValueError("first line\nthe \x1b[31m last line")

    drain(dsn, refuse)


def test_list(gapless, letters) -> None:
    rows = gapless("dlq", "--json").json
    assert [(row["partition"], row["offset"]) for row in rows] == [(0, 4), (0, 2), (0, 1)]
    assert {row["error"] for row in rows} == {"the \x1b[31m last line"}
    done = gapless("dlq")
    assert (done.code, done.err) == (0, "")
    assert "\x1b" not in done.out
    assert done.lines[0].split() == (
        "GROUP TOPIC PARTITION OFFSET KEY EVENT-TYPE ATTEMPTS DIED ERROR".split()
    )


def test_some(gapless, letters) -> None:
    assert len(gapless("dlq", "list", "--limit", "2", "--json").json) == 2
    assert (
        len(gapless("dlq", "list", "--group", "billing", "--topic", "orders", "--json").json) == 3
    )
    for nobody in (("--group", "x"), ("--topic", "x")):
        done = gapless("dlq", "list", *nobody)
        assert (done.code, done.out, done.err) == (0, "", "gapless: no dead letters\n")


def test_show(gapless, letters) -> None:
    done = gapless("dlq", "show", "billing/orders/0/1")
    assert (done.code, done.err) == (0, "")
    assert "\x1b" not in done.out
    assert "\x9b" not in done.out
    for part in (
        "dead letter billing/orders/0/1",
        "died with it    2",
        "headers\n",
        '"total": 2',
        "Traceback (most recent call last)",
        "ValueError: first line",
        "the \\x1b[31m last line",
    ):
        assert part in done.out
    assert "alone in its unit" in gapless("dlq", "show", "billing/orders/0/4").out


def test_show_as_json(gapless, letters) -> None:
    done = gapless("dlq", "show", "billing/orders/0/2", "--json")
    letter = done.json
    assert (letter["group"], letter["offset"], letter["unit"]) == ("billing", 2, [1, 2])
    assert letter["headers"] == {"h": 1}
    assert '{"total": 1.10, "total": 2, "note": "\\u009b\\u0000"}' in done.out
