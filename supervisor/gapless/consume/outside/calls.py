"""Calls of an at-least-once handler that are under way, each on a thread of its own, or as a task.

The session belongs to the thread that drives the partition. The other threads' messages to it come
through one queue: a call has ended, or needs the next slice of a unit that is too large for memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, thread
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

import psycopg
from psycopg import Connection

from gapless import loops
from gapless.consume.unit import Fetch, Unit
from gapless.consume.user.call import call_in_loop, call_outside
from gapless.consume.user.handler import Handler
from gapless.consume.verdict.failure import Failure
from gapless.log.event import Row

Ended = Failure | BaseException | None
"""The end of a call: success, a failure of its unit, or an error of the environment."""

# A process forked by one of our threads would wait for that thread at its end, with exit code 1.
os.register_at_fork(after_in_child=getattr(thread, "_threads_queues", {}).clear)


class Calls:
    """Up to `concurrency` calls; `wake` is called, on any thread, when collect() has a result."""

    def __init__(self, handler: Handler, concurrency: int, wake: Callable[[], None]) -> None:
        self._handler = handler
        self._wake = wake
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="gapless-call")
        self._inbox: SimpleQueue[Callable[[], tuple[int, Ended] | None]] = SimpleQueue()
        self._began_s: dict[int, float] = {}  # by the first offset of the unit, or its number
        self._tasks: dict[int, loops.Call] = {}  # of an async handler
        self._abandoned = False

    def __contains__(self, first_offset: object) -> bool:
        return first_offset in self._began_s

    def __len__(self) -> int:
        return len(self._began_s)

    def __iter__(self) -> Iterator[int]:
        return iter(self._began_s)

    @property
    def oldest_s(self) -> float | None:
        """The time (time.monotonic) at which the oldest call under way began."""
        return min(self._began_s.values(), default=None)

    def begin(self, unit: Unit, conn: Connection[Any], number: int | None = None) -> None:
        """Call the handler, on another thread, or as a task of the loop.

        conn: to look up schemas with, if the handler says on_invalid.
        number: the unit's name here, for a caller with units of several partitions; by default its
        first offset.
        """
        if self._handler.guard is not None:
            self._handler.guard.look(conn, unit.topic)
        number = unit.first_offset if number is None else number
        self._began_s[number] = monotonic()
        if self._handler.coroutine is None:
            future = self._pool.submit(call_outside, self._handler, unit)
        else:
            call = loops.begin(partial(call_in_loop, self._handler, unit))
            self._tasks[number] = call
            future = call.future
        future.add_done_callback(partial(self._put_end, number))

    def collect(self, *, wait: bool) -> Iterator[tuple[int, Ended]]:
        """Yield the units whose calls have ended, with their ends; serve the calls that read on.

        wait: until one has ended, if any is under way.
        """
        ended = 0
        with suppress(Empty):
            while self._began_s:
                end = self._inbox.get(block=wait and not ended)()
                if end is not None:
                    del self._began_s[end[0]]
                    self._tasks.pop(end[0], None)
                    ended += 1
                    yield end

    def elsewhere(self, fetch: Fetch) -> Fetch:
        """Return a function that reads through `fetch`, and may be called on another thread."""
        return partial(self._fetch, fetch)

    def abandon(self) -> None:
        """Give up all calls: cancel tasks; threads cannot be stopped, but read no further."""
        self._abandoned = True
        for call in self._tasks.values():
            call.cancel()
        self._tasks.clear()
        self._began_s.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _put_end(self, first_offset: int, future: Future[Failure | None]) -> None:
        if not self._abandoned:
            self._put(lambda: (first_offset, future.exception() or future.result()))

    def _put(self, job: Callable[[], tuple[int, Ended] | None]) -> None:
        self._inbox.put(job)
        self._wake()

    def _fetch(self, fetch: Fetch, ids: Sequence[int]) -> list[Row]:
        reply: Future[list[Row]] = Future()
        self._put(lambda: self._read(fetch, ids, reply))
        while not self._abandoned:
            with suppress(TimeoutError):
                return reply.result(1.0)
        raise psycopg.OperationalError("the partition has another owner: there is no more to read")

    def _read(self, fetch: Fetch, ids: Sequence[int], reply: Future[list[Row]]) -> None:
        try:
            reply.set_result(fetch(ids))
        except BaseException as error:  # noqa: BLE001 - raised in the reading thread
            reply.set_exception(error)
