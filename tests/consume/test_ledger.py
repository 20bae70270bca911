"""One step, many drivers: whatever drives it, in any sizes, the ledger is the same (I5, I6)."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Connection

import gapless
from gapless.consume.batch import Batch
from gapless.consume.unit import Unit
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.policy import Policy
from gapless.log.event import NewEvent
from gapless.log.sequence import sequence
from support.world import Group, World, make_handler

ACCOUNTS = 7
UNITS = 100
REFUSED_ABOVE = 900

TABLES = """
create table balance (
  group_id text, account int, amount bigint not null,
  primary key (group_id, account)
);
create table posting (
  group_id text, c_offset bigint, account int, amount int, balance bigint,
  primary key (group_id, c_offset)
);
"""
POST = """
with moved as (
  insert into balance as b values (%(group)s, %(account)s, %(amount)s)
  on conflict (group_id, account) do update set amount = b.amount + excluded.amount
  returning amount
)
insert into posting select %(group)s, %(offset)s, %(account)s, %(amount)s, amount from moved
"""


class Ledger:
    """Posts every event to its account; refuses a unit in which an amount is too large, late."""

    def __init__(self, group: Group) -> None:
        self.group = group

    def post(self, unit: Unit, conn: Connection[Any]) -> None:
        for event in unit:
            amount = event.payload["amount"]
            if amount > REFUSED_ABOVE:
                raise ValueError(f"{amount} is too much")
            parameters = {"group": self.group.name, "offset": event.offset, **event.payload}
            conn.execute(POST, parameters)

    def post_all(self, batch: Batch, conn: Connection[Any]) -> None:
        for unit in batch:
            self.post(unit, conn)

    def rows(self) -> list[Any]:
        """Everything there is to compare: the order of postings shows in their balances."""
        world, name = self.group.world, self.group.name
        return [
            world.rows("select account, amount from balance where group_id = %s order by 1", name),
            world.rows(
                "select c_offset, account, amount, balance from posting"
                " where group_id = %s order by 1",
                name,
            ),
            list(self.group.letters()),
            self.group.next_offset(),
        ]


DRIVERS: dict[str, dict[str, Any]] = {
    "one by one": {"batch_size": 1},
    "small": {"batch_size": 7},
    "default": {},
    "all at once": {"batch_size": 10_000},
    "two savepoints": {"batch_size": 1000, "units_per_commit": 2},
    "streamed": {"stream_above_events": 2},
    "alone": {"alone": True},
}


POLICIES: dict[str, Policy] = {
    "dead-letter": Policy(),
    "retry": Policy(on_failure="retry", retry_delays_s=(0, 0)),
    "park-key": Policy(on_failure="park-key", retry_delays_s=(0,)),
    "block": Policy(on_failure="block"),
}


@pytest.fixture
def ledgers(world: World) -> World:
    world.conn.execute(TABLES)
    chance = random.Random(20130101)
    for _ in range(4):
        world.events(
            NewEvent(
                payload={"account": chance.randrange(ACCOUNTS), "amount": chance.randrange(1000)},
                transaction_id=id_,
                key="k",
            )
            for _ in range(UNITS // 4)
            for id_ in [uuid4()]
            for _ in range(chance.choice([1, 1, 1, 2, 3, 8]))
        )
    sequence(world.conn)
    return world


@contextmanager
def new_ledger(world: World) -> Iterator[Ledger]:
    group = world.group()
    with group.conn:
        yield Ledger(group)


@pytest.mark.long
def test_every_driver_writes_the_same_ledger(ledgers: World) -> None:
    results: dict[str, list[Any]] = {}
    for name, limits in DRIVERS.items():
        for batch in (False, True):
            with new_ledger(ledgers) as ledger:
                function = ledger.post_all if batch else ledger.post
                what: Handler = make_handler(function, batch=batch)
                ledger.group.drain(what, **limits)
                results[f"{name}, batch={batch}"] = ledger.rows()
    expected = results["one by one, batch=False"]
    assert len(expected[1]) > 120
    assert len(expected[2]) > 10
    assert expected[3] == len(expected[1]) + len(expected[2]) + 1
    for name, rows in results.items():
        assert rows == expected, name


def settle(ledger: Ledger, policy: Policy, chance: random.Random) -> None:
    """Post everything; under park-key, discard what is dead, and let what is behind it follow."""

    def post(unit: Unit, conn: Connection[Any]) -> None:
        try:
            ledger.post(unit, conn)
        except ValueError as error:
            if policy.on_failure == "block":
                raise gapless.DeadLetter(str(error)) from error
            raise

    group, world = ledger.group, ledger.group.world
    group.drive(make_handler(post), policy=policy)
    while policy.parks:
        dead = [first for first, state in group.states().items() if state == "dead"]
        if not dead:
            return
        discard = "select gapless.discard_letter(%s, %s, 0, %s, 'of no use')"
        world.value(discard, group.name, world.topic.name, chance.choice(dead))
        group.drive(make_handler(post), policy=policy)


@pytest.mark.parametrize("parks", [False, True], ids=["key by account", "one key"])
def test_every_policy_writes_the_same_ledger(world: World, parks: bool) -> None:
    """Under park-key what is refused holds up its keys, until a person discards it: same balances."""
    world.conn.execute(TABLES)
    chance = random.Random(20130102)
    for _ in range(60):
        account = chance.randrange(ACCOUNTS)
        amounts = [chance.randrange(1000) for _ in range(chance.choice([1, 1, 2, 4]))]
        world.events(
            NewEvent(payload={"account": account, "amount": n}, key="k" if parks else str(account))
            for n in amounts
        )
    results: dict[str, list[Any]] = {}
    for name, policy in POLICIES.items():
        with new_ledger(world) as ledger:
            settle(ledger, policy, chance)
            end = "discarded" if policy.parks else "dead"
            assert set(ledger.group.states().values()) == {end}
            results[name] = ledger.rows()
    expected = results["dead-letter"]
    assert len(expected[1]) > 60
    assert len(expected[2]) > 5
    for name, rows in results.items():
        assert rows == expected, name
