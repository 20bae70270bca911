"""A worker takes one partition more only of its own group and topic, and only if it stays."""

import select
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from gapless.keys import Partition
from gapless.worker.roster import Worker, _Service

ME = UUID(int=1)
HERE = Partition(group_id="g", topic="orders", topic_id=1, partition_id=1)


def worker(**said: Any) -> Worker:
    child: Any = SimpleNamespace(
        draining=said.get("draining", False), killed=said.get("killed", False)
    )
    service = _Service(replace(HERE, partition_id=0), 7, draining=said.get("gives", False))
    return Worker(child, ME, {7: service}, solo=said.get("solo", False))


def test_it_takes_one_more() -> None:
    assert worker().can_take(HERE, ME, 2)


@pytest.mark.parametrize("why", ["solo", "draining", "killed", "gives"])
def test_not_one_that_is_about_to_go(why: str) -> None:
    assert not worker(**{why: True}).can_take(HERE, ME, 2)


def test_not_for_another_member_group_or_topic_or_too_many() -> None:
    assert not worker().can_take(HERE, UUID(int=2), 2)
    assert not worker().can_take(replace(HERE, group_id="h"), ME, 2)
    assert not worker().can_take(replace(HERE, topic_id=2), ME, 2)
    assert not worker().can_take(HERE, ME, 1)


def test_one_that_reads_nothing_is_rung_once_it_does_and_never_waited_for() -> None:
    told: list[tuple[object, ...]] = []
    busy: Any = worker()
    busy.child = Told(told)
    for number in (1, 2):
        busy.services[7 + number] = _Service(replace(HERE, partition_id=number), 7 + number)
    busy.ring({"gapless_p_1_1", "gapless_p_2_0", "gapless_p_1_9"})
    busy.child.full = True
    for _ in range(9):
        busy.ring({"gapless_p_1_2"})
    busy.ring({"gapless_p_1_0"})
    assert told == [("ring", 1)]
    busy.child.full = False
    for _ in range(2):
        busy.ring(set())
    assert told == [("ring", 1), ("ring", 0, 2)]
    busy.ring(set(), {9, 10})
    assert told[2:] == [("ring", 2)], "by the numbers of leases, which are of one group"


def test_no_order_is_longer_than_what_a_pipe_with_room_takes() -> None:
    told: list[tuple[object, ...]] = []
    many: Any = worker()
    many.child = Told(told)
    many.unrung = set(range(4096))
    while many.unrung:
        many.ring(set())
    assert [number for _, *numbers in told for number in numbers] == [*range(4096)]
    assert all(len(" ".join(map(str, order))) < select.PIPE_BUF - 8 for order in told)


class Told:
    """A child whose pipe may be full."""

    draining = killed = full = False

    def __init__(self, told: list[tuple[object, ...]]) -> None:
        self.order = lambda *words: told.append(words)

    def has_room(self) -> bool:
        return not self.full
