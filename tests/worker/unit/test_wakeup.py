"""A bell rings until it is silenced."""

import os
import select
from collections.abc import Iterator

import pytest

from gapless.worker.wakeup import Wakeup


@pytest.fixture
def bell() -> Iterator[Wakeup]:
    bell = Wakeup()
    yield bell
    os.close(bell._heard)
    os.close(bell._rung)


def test_it_rings_until_it_is_silenced(bell: Wakeup) -> None:
    assert not bell.silence(), "and does not wait"
    bell.ring()
    bell.ring()
    assert select.select([bell], [], [], 0)[0] == [bell]
    assert bell.silence()
    assert not bell.silence()
    assert select.select([bell], [], [], 0)[0] == []


def test_nobody_waits_to_ring_it(bell: Wakeup) -> None:
    with pytest.raises(BlockingIOError):
        while True:
            os.write(bell._rung, b"." * 65_536)
    bell.ring()
    assert bell.silence()
