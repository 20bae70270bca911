"""A worker takes one partition more only of its own group and topic, and only if it stays."""

from __future__ import annotations

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
