"""Long work in the loop, a slice at a time: between two slices everybody else is served.

A thread would not do: it has the interpreter for 5 ms at a time, and a loop that speaks with the
database in the loop would wait for it ten times a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic
from typing import TypeVar

SLICE_S = 0.002
Item = TypeVar("Item")


class Slices:
    """Of all that is long one slice at a time, in turns."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def collect(self, items: Iterator[Item]) -> list[Item]:
        """Return the items; each one is a step that should take no longer than a slice."""
        found: list[Item] = []
        while True:
            async with self._turn:
                until_s = monotonic() + SLICE_S
                for item in items:
                    found.append(item)
                    if monotonic() > until_s:
                        break
                else:
                    return found
                await asyncio.sleep(0)  # MUST keep the turn: of all one slice, then everybody else
