"""wait_for(through=...): until a chain of groups has handled a transaction and what came of it."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg
import pytest
from psycopg import AsyncConnection, Connection

import gapless
from features.chains.shop import NOBODY, Shop
from gapless.consume.unit import Unit
from gapless.errors import UsageError, WaitError
from gapless.log.publish import publish
from gapless.log.wait import wait_for
from gapless.testing import drain
from support.long import long_but

ALL = ["bill", "ship", "track"]


@pytest.fixture
def shop(dsn: str, conn: Connection) -> Shop:
    made = Shop(dsn, conn)
    for topic, group in (("orders", "bill"), ("payments", "ship"), ("parcels", "track")):
        conn.execute("select gapless.create_group(%s, %s)", [group, topic])
    return made


def state(shop: Shop, transaction_id: UUID, *groups: str) -> tuple[str, str]:
    return shop.conn.execute(
        "select state, group_id from gapless.chain_state(%s, %s)", [list(groups), transaction_id]
    ).fetchone() or ("", "")


@contextmanager
def running(*work: Callable[[], None]) -> Iterator[None]:
    """Do the work again and again, each on a thread of its own, until the block ends."""
    over = threading.Event()

    def repeat(each: Callable[[], None]) -> None:
        while not over.is_set():
            each()

    threads = [threading.Thread(target=repeat, args=[each]) for each in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


@pytest.mark.long
def test_one_link_after_the_other(shop: Shop) -> None:
    told = shop.order(*range(6))
    assert state(shop, told, *ALL) == ("unsequenced", "bill")
    shop.conn.execute("select gapless.sequence_events()")
    assert state(shop, told, *ALL) == ("pending", "bill")
    shop.bill()
    assert state(shop, told, *ALL) == ("unsequenced", "ship")
    assert state(shop, told, "bill") == ("handled", "bill")
    shop.conn.execute("select gapless.sequence_events()")
    assert state(shop, told, *ALL) == ("pending", "ship")
    shop.ship()
    assert state(shop, told, *ALL) == ("unsequenced", "track")
    shop.track()
    assert state(shop, told, *ALL) == ("handled", "track")


def test_who_publishes_nothing_ends_the_chain(shop: Shop) -> None:
    drain(shop.dsn, shop.relay("orders", "bill", None))
    told = shop.order(1)
    drain(shop.dsn, shop.relay("orders", "bill", None))
    assert wait_for(shop.conn, "track", told, 0, through=["bill", "ship"]) == "handled"


@pytest.mark.long
def test_dead_at_once_when_nothing_can_follow(shop: Shop) -> None:
    shop.refused = {1}
    told = shop.order(1)
    shop.bill()
    assert wait_for(shop.conn, "track", told, 0, through=["bill", "ship"]) == "dead"
    assert state(shop, told, *ALL) == ("dead", "bill")
    shop.conn.execute("select gapless.redrive_letter('bill', 'orders', 0, 1)")
    assert state(shop, told, *ALL) == ("waiting", "bill")
    shop.refused = set()
    shop.all()
    assert state(shop, told, *ALL) == ("handled", "track")


@pytest.mark.long
def test_a_dead_link_beside_one_that_goes_on(shop: Shop) -> None:
    """What came of the others is waited for."""
    told = shop.order(*range(8))
    shop.bill()
    shop.refused = {0}
    shop.ship()
    shop.refused = set()
    assert state(shop, told, *ALL) == ("unsequenced", "track")
    with pytest.raises(WaitError, match="group track has not handled the results of") as caught:
        wait_for(shop.conn, "track", told, 0, through=["bill", "ship"])
    assert (caught.value.state, caught.value.group) == ("unsequenced", "track")
    shop.track()
    assert state(shop, told, *ALL) == ("dead", "ship")


def test_of_one_group_it_is_as_without(shop: Shop) -> None:
    told = shop.order(1)
    for through in ([], ["bill"], "bill", iter(["bill"])):
        with pytest.raises(WaitError, match="group bill has not handled transaction") as caught:
            wait_for(shop.conn, "bill", told, 0, through=through)
        assert (caught.value.state, caught.value.group) == ("unsequenced", "bill")
    shop.bill()
    for through in ([], ["bill"], "bill"):
        assert wait_for(shop.conn, "bill", told, 0, through=through) == "handled"
    with pytest.raises(WaitError, match="nothing into a topic of this group") as caught:
        wait_for(shop.conn, "track", told, 30, through=["ship"])
    assert (caught.value.state, caught.value.group) == ("elsewhere", "ship")
    with pytest.raises(WaitError, match="no event of it is there"):
        wait_for(shop.conn, "ship", NOBODY, 0, through=["bill"])


def test_a_group_that_is_not_there(shop: Shop) -> None:
    told = shop.order(1)
    for group, through in (("x", ["bill"]), ("bill", ["x"]), ("x", [])):
        with pytest.raises(UsageError, match='there is no group "x"'):
            wait_for(shop.conn, group, told, through=through)
    with pytest.raises(psycopg.Error, match="of which groups"):
        state(shop, told)


@pytest.mark.long
@pytest.mark.parametrize("kind", long_but(["sync", "async", "sql"], "async"))
def test_while_the_groups_run(shop: Shop, dsn: str, kind: str) -> None:
    """When it returns, every effect is there."""

    def wait(told: UUID) -> str:
        if kind == "async":
            return asyncio.run(_waits(dsn, told))
        if kind == "sync":
            return wait_for(shop.conn, "track", told, 60, through=["bill", "ship"])
        row = shop.conn.execute(
            "select state from gapless.wait_through(%s, %s, '60 s')", [ALL, told]
        ).fetchone()
        return str(row and row[0])

    with running(shop.bill, shop.ship, shop.track):
        for n in range(5):
            told = shop.order(*range(n + 1))
            assert wait(told) == "handled"
            rows = shop.trace(told)
            assert {r["topic"] for r in rows} == {"orders", "payments", "parcels"}
            assert {each["state"] for r in rows for each in r["groups"]} == {"handled"}
            assert sum(r["events"] for r in rows) == 3 * (n + 1)


async def _waits(dsn: str, told: UUID) -> str:
    async with await AsyncConnection.connect(dsn) as conn:
        return await wait_for(conn, "track", told, 60, through=["bill", "ship"])


@pytest.mark.long
def test_through_an_at_least_once_group(shop: Shop, dsn: str) -> None:
    """What it publishes with publish(), on a connection of its own, is known."""

    @gapless.handler(topic="orders", group="bill", delivery="at-least-once")
    def bill(unit: Unit) -> None:
        with psycopg.connect(dsn) as own:
            publish(own, "payments", 0, key="k")

    told = shop.order(1)
    drain(dsn, bill)
    assert state(shop, told, *ALL) == ("unsequenced", "ship")
    shop.ship()
    shop.track()
    assert wait_for(shop.conn, "track", told, 0, through=["bill", "ship"]) == "handled"


def test_not_inside_the_publishing_transaction(shop: Shop, dsn: str) -> None:
    with psycopg.connect(dsn) as other:
        told = publish(other, "orders", 1)
        with pytest.raises(UsageError, match="commit first"):
            wait_for(other, "ship", told, through=["bill"])
