"""The loop that a process shares: calls from any thread, and from a child of it."""

import asyncio
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable

import pytest

from gapless import loops

CHILD_S_MAX = 20


def test_a_child_made_while_a_call_begins_can_call() -> None:
    """What another thread holds at a fork nobody would give back in the child."""
    is_held, may_go = threading.Event(), threading.Event()

    def hold() -> None:
        with loops._starting:
            is_held.set()
            may_go.wait(0.2)

    beginning = threading.Thread(target=hold)
    beginning.start()
    assert is_held.wait(CHILD_S_MAX)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        pid = os.fork()
    if pid == 0:
        signal.alarm(CHILD_S_MAX)

        async def answer() -> int:
            return 7

        os._exit(0 if loops.run(answer) == 7 else 1)
    _, status = os.waitpid(pid, 0)
    beginning.join()
    assert os.waitstatus_to_exitcode(status) == 0


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("end", [sys.exit, interrupt, lambda: asyncio.get_running_loop().stop()])
def test_what_a_task_beside_a_call_does_ends_no_call(end: Callable[[], None]) -> None:
    async def ends() -> None:
        end()

    async def call() -> set[asyncio.Task[None]]:
        task = asyncio.create_task(ends())
        return (await asyncio.wait([task]))[0]

    for _ in range(2):
        (task,) = loops.begin(call).future.result(CHILD_S_MAX)
        task.exception()
