"""The event loop of this process, on a thread of its own, for async handlers.

There is one per process, from the first call on: things opened in it (a client, a pool) serve all
calls, and live on between them. A forked child has its own.
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
    """A call that runs in the loop; `future` gets its result, or its exception of any kind."""

    def __init__(self, work: Work, context: Context) -> None:
        self.future: Future[Any] = Future()
        self._work = work
        self._context = context
        self._loop = _loop()
        self._task: asyncio.Task[None] | None = None
        with _starting:
            _to_begin.append(self)
            is_first = len(_to_begin) == 1
        if is_first:  # otherwise the loop was woken already, and has not begun all
            self._loop.call_soon_threadsafe(_begin_all)

    def begin(self) -> None:
        """Begin the call; in the loop."""
        self._task = self._loop.create_task(self._run(), context=self._context)

    def cancel(self) -> None:
        """Raise CancelledError in the call, where it awaits something."""
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
    """Begin a call in the loop, in a copy of the caller's context; do not wait."""
    return Call(work, copy_context())


def run(work: Work) -> Any:
    """Run it in the loop, and wait; return its result, raise its exception.

    An interruption of the wait (Ctrl-C) cancels the call first.
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
    """Tell whether the caller is in the loop."""
    try:
        return asyncio.get_running_loop() is _started.get(os.getpid())
    except RuntimeError:
        return False


_started: dict[int, asyncio.AbstractEventLoop] = {}  # by process id
_to_begin: deque[Call] = deque()  # filled by any thread; waking the loop costs as much as a call
_starting = threading.Lock()


def _begin_all() -> None:
    while _to_begin:
        _to_begin.popleft().begin()


def _forget() -> None:
    for loop in _started.values():
        # If a task forked: other ready callbacks are the parent's; the task ends at its next await.
        getattr(loop, "_ready", _to_begin).clear()
        with suppress(RuntimeError):  # another thread forked, and the loop is in its debug mode
            loop.call_soon(end_forked)
    _started.clear()
    _to_begin.clear()
    _starting.release()


# Each call takes the lock: a child would wait forever if another thread held it at the fork.
os.register_at_fork(
    before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_forget
)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    while True:  # SystemExit or Ctrl-C in a task, or a stop of the loop, ends no other call
        with suppress(SystemExit, KeyboardInterrupt), OneProcess():
            loop.run_forever()


def _loop() -> asyncio.AbstractEventLoop:
    with _starting:
        found = _started.get(os.getpid())
        if found is None:
            found = _started[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=_run, args=[found], name="gapless-loop", daemon=True).start()
        return found
