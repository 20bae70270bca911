"""Prepare the next item while the last one is used: the server sends while Spark reads."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def ahead(items: Iterator[T]) -> Generator[T]:
    """Yield the items, none of which is None; a thread prepares the next one meanwhile.

    An error is raised in its item's turn. Closed early, it waits for the item that is being
    prepared, and closes `items` if that is a generator.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="gapless ahead") as thread:
        coming = thread.submit(next, items, None)
        try:
            while (item := coming.result()) is not None:
                coming = thread.submit(next, items, None)
                yield item
        finally:
            coming.cancel()
            if isinstance(items, Generator):
                thread.submit(items.close).result()
