"""Long work of several requests, a slice at a time: others are served between two of them."""

import asyncio
from itertools import count

import pytest

from gapless.features.gateway import slices
from gapless.features.gateway.slices import Slices

ITEMS = 50


def test_between_two_slices_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_ms = count()
    monkeypatch.setattr(slices, "monotonic", lambda: next(clock_ms) / 1000)  # an item takes 1 ms
    done: list[str] = []

    async def work(turns: Slices, name: str) -> None:
        assert await turns.collect(done.append(name) or n for n in range(ITEMS)) == list(
            range(ITEMS)
        )

    async def main() -> None:
        turns = Slices()
        both = [asyncio.create_task(work(turns, name)) for name in "ab"]
        while not all(task.done() for task in both):
            await asyncio.sleep(0)
            done.append(".")
        await asyncio.gather(*both)

    asyncio.run(main())
    between = "".join(done).strip(".").split(".")
    assert max(map(len, between)) <= slices.SLICE_S * 1000 + 1, "others wait for one slice"
    first = "".join(between)[:ITEMS]
    assert abs(first.count("a") - first.count("b")) < ITEMS / 5, "each has its turns"
