"""A stranger may notify on every channel, whatever it likes; nobody falls over it (I11)."""

from collections.abc import Callable

import psycopg
import pytest

from gapless.db.schema import here
from support.fleet import Fleet, until
from support.ledger import assert_exactly_once
from support.long import long_but

PAYLOADS = [
    "",
    "ready",
    "ready ",
    "ready x",
    "ready 1 2",
    "ready -1",
    "ready ²",
    "ready ١",
    "ready " + "9" * 5000,
    "ready 99999999999999999999",
    "plan",
    "free",
    "letter",
    "\x1b[2J\r",
    "x" * 7999,
]


@pytest.mark.long
def test_notifications_of_a_stranger(role: Callable[..., str], fleet: Fleet) -> None:
    a = fleet.start("a")
    until(a.sequencer, "a sequences", within=a.log)
    fleet.until_owners(a=4)
    children = a.children()
    topic_id = fleet.value("select topic_id from gapless.topic")
    group_no = fleet.value("select group_no from gapless.consumer_group")
    channels = [
        "gapless_role",
        "gapless_sequencer",
        f"gapless_g_{group_no}",
        *(f"gapless_p_{topic_id}_{p}" for p in range(4)),
    ]
    with psycopg.connect(role(), autocommit=True) as stranger:
        for n, payload in enumerate(PAYLOADS * 3):
            for channel in channels:
                stranger.execute("select pg_notify(%s, %s)", [here(channel), payload])
            fleet.publish({}, partition=n % 4)
        for number in range(1, 50):  # all leases are ready, it says
            stranger.execute("select pg_notify(%s, %s)", [here(channels[2]), f"ready {number}"])
        b = fleet.start("b")
        fleet.until_owners(a=2, b=2)
        fleet.publish({}, {}, {})
    fleet.until_handled()
    assert_exactly_once(fleet.conn)
    assert a.process.poll() is None
    assert b.process.poll() is None
    assert a.deaths() == 0
    assert len(children & a.children()) >= 3, "the sequencer and two workers are the same"


@pytest.mark.parametrize("payload", long_but(["ready x", "ready 1"], "ready 1"))
def test_one_that_says_a_successor_is_ready_when_none_is(
    role: Callable[..., str], fleet: Fleet, payload: str
) -> None:
    fleet.start("a")
    fleet.until_owners(a=4)
    with psycopg.connect(role(), autocommit=True) as stranger:
        for _ in range(20):
            stranger.execute("select pg_notify(%s, %s)", [here("gapless_g_1"), payload])
    fleet.publish({})
    fleet.until_handled()
    assert fleet.value("select max(epoch) from gapless.lease") == 1, "nobody moved"
