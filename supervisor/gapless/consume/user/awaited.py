"""Async handlers: a coroutine function that the step can call as any other.

It runs in the loop of the process (gapless.loops) while the step waits. Its connection is an
AsyncConnection over the step's own session, so its writes commit with the offset (I6).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from psycopg import AsyncConnection, Connection

from gapless import loops
from gapless.consume.batch import Batch
from gapless.consume.unit import Fetch, Unit
from gapless.db.twin import twin
from gapless.log.event import Row


def is_async(function: Callable[..., Any]) -> bool:
    """Tell whether a function, or the one that its decorators wrap, has to be awaited."""
    inner = inspect.unwrap(function)
    if not isinstance(inner, functools.partial) and not inspect.isroutine(inner):
        inner = type(inner).__call__  # of an object
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(inner)


def in_loop(function: Callable[..., Any]) -> Callable[..., object]:
    """Return a function that calls a coroutine function in the loop, and waits for its end."""

    @functools.wraps(function)
    def call(work: Unit | Batch, conn: Connection[Any]) -> object:
        returned: object = loops.run(partial(_within, function, work, conn))
        return returned

    return call


async def awaited(function: Callable[..., Any], *given: Any) -> object:
    """Call a function, and await its result if necessary: a decorator may be of either kind."""
    result = function(*given)
    return await result if inspect.isawaitable(result) else result


async def _within(
    function: Callable[..., Any], work: Unit | Batch, conn: Connection[Any]
) -> object:
    # The block ends before anything else of the loop runs: a task that the handler began and did
    # not await finds the connection closed, and cannot write for the next unit.
    with twin(conn, AsyncConnection) as shared:
        for unit in tuple(work) if isinstance(work, Batch) else (work,):
            if unit.is_streamed:
                unit.source = replace(unit.source, fetch=_in_turn(unit.source.fetch, shared))
        return await awaited(function, work, shared)


def _in_turn(fetch: Fetch, shared: AsyncConnection[Any]) -> Fetch:
    """Return a reader of slices through the session that refuses while the handler queries it."""

    def fetch_in_turn(ids: Sequence[int]) -> list[Row]:
        if shared.lock.locked():
            raise RuntimeError(
                "this unit is too large for memory and is read through the connection you were "
                "given: await what runs on it before you take the next event"
            )
        return fetch(ids)

    return fetch_in_turn
