"""Long work in the loop, a slice at a time: other requests are served between two slices.

A thread would not do: it has the interpreter for 5 ms at a time, and a loop that also speaks with
the database would wait for it ten times a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic
from typing import TypeVar

SLICE_S = 0.002
Item = TypeVar("Item")


class Slices:
    """Runs one slice of all long work at a time, in turns."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def collect(self, items: Iterator[Item]) -> list[Item]:
        """Return the items; the step to each should take no longer than a slice."""
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
                await asyncio.sleep(0)  # MUST keep the turn: one slice, then all other requests
