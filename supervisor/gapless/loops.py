"""The event loop of this process, on a thread of its own: what async handlers run in.

One a process, from the first call on: what is opened in it (a client, a pool) serves all calls,
and lives on between them. A forked child has its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

from gapless.forked import OneProcess, end_forked

_CANCEL_S_MAX = 5.0

Work = Callable[[], Awaitable[Any]]


class Call:
    """Something that runs in the loop; `future` has what it returned, or raised, of any kind."""

    def __init__(self, work: Work, context: Context) -> None:
        self.future: Future[Any] = Future()
        self._work = work
        self._context = context
        self._loop = _loop()
        self._task: asyncio.Task[None] | None = None
        with _starting:
            _to_begin.append(self)
            is_first = len(_to_begin) == 1
        if is_first:  # else the loop was woken already, and has not begun all
            self._loop.call_soon_threadsafe(_begin_all)

    def begin(self) -> None:
        """Begin it; in the loop."""
        self._task = self._loop.create_task(self._run(), context=self._context)

    def cancel(self) -> None:
        """Have CancelledError raised in it, where it awaits something."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            with OneProcess():
                self.future.set_result(await self._work())
        except BaseException as error:  # noqa: BLE001 - SystemExit, too, which would end the loop
            self.future.set_exception(error)


def begin(work: Work) -> Call:
    """Begin to run it in the loop, in a copy of the context of whoever calls; do not wait."""
    return Call(work, copy_context())


def run(work: Work) -> Any:
    """Run it in the loop, and wait; return what it returns, raise what it raises.

    What interrupts the wait (Ctrl-C) cancels it first.
    """
    call = begin(work)
    try:
        return call.future.result()
    except BaseException:
        if not call.future.done():
            call.cancel()
            wait([call.future], timeout=_CANCEL_S_MAX)
        raise


def is_inside() -> bool:
    """Tell whether this is called in the loop."""
    try:
        return asyncio.get_running_loop() is _started.get(os.getpid())
    except RuntimeError:
        return False


_started: dict[int, asyncio.AbstractEventLoop] = {}  # by the process
_to_begin: deque[Call] = deque()  # by whichever thread; waking the loop costs as much as a call
_starting = threading.Lock()


def _begin_all() -> None:
    while _to_begin:
        _to_begin.popleft().begin()


def _forget() -> None:
    for loop in _started.values():
        # If a task forked: what else is ready is the parent's, and where the task awaits it ends.
        getattr(loop, "_ready", _to_begin).clear()
        with suppress(RuntimeError):  # another thread did, and the loop is in its debug mode
            loop.call_soon(end_forked)
    _started.clear()
    _to_begin.clear()
    _starting.release()


# Each call takes the lock: a child would wait forever for one that another thread held at the fork.
os.register_at_fork(
    before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_forget
)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    while True:  # what ends a task by SystemExit or Ctrl-C, or stops the loop, ends no other call
        with suppress(SystemExit, KeyboardInterrupt), OneProcess():
            loop.run_forever()


def _loop() -> asyncio.AbstractEventLoop:
    with _starting:
        found = _started.get(os.getpid())
        if found is None:
            found = _started[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=_run, args=[found], name="gapless-loop", daemon=True).start()
        return found
