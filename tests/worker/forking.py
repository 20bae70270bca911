"""Handlers that make processes, in every mode: each writes down once what it handled, then does what its event says.

`gapless run` takes this file. A child that is a second worker would write a second time, or end the session.
"""

import asyncio
import ctypes
import gc
import multiprocessing
import os
import pty
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

import gapless

warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
CHILD_S_MAX = 20
EXECUTORS: dict[int, ProcessPoolExecutor] = {}
FORK = multiprocessing.get_context("fork")
DONE = "insert into done values (%s, %s)"


def is_child(fork: Callable[[], int] = os.fork) -> bool:
    """Fork; wait for the child, whose exit code says that it came back."""
    pid = fork()
    if pid == 0:
        signal.alarm(CHILD_S_MAX)
        return True
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 70
    return False


def pty_fork() -> int:
    pid, descriptor = pty.fork()
    if pid:
        with suppress(OSError):
            while os.read(descriptor, 1000):
                pass
        os.close(descriptor)
    return pid


def c_fork() -> int:
    """Fork past Python: none of its hooks is called. Beside threads its own locks would hang."""
    return int(ctypes.PyDLL(None).fork()) if threading.active_count() == 1 else os.fork()


def fail_in_c(_: Any) -> None:
    if is_child(c_fork):
        raise ValueError("in a child")


def ends_alone(_: Any = None) -> None:
    """Fork on a thread, and come back there: no handler's call is on its stack."""
    pid = os.fork()
    if pid:
        signal.alarm(CHILD_S_MAX)
        os.waitpid(pid, 0)
        signal.alarm(0)


def in_a_thread_pool(_: Any) -> None:
    with ThreadPoolExecutor(2) as made:
        made.submit(ends_alone).result()


def fail(_: Any) -> None:
    if is_child():
        raise ValueError("in a child")


def leave(_: Any) -> None:
    pid = os.fork()
    if pid == 0:
        sys.exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


def interrupt(_: Any) -> None:
    if is_child():
        raise KeyboardInterrupt


def collect(conn: Any) -> None:
    if is_child():
        del conn
        gc.collect()


def write(conn: Any) -> None:
    if is_child():
        conn.execute(DONE, ["child", 0])


def close(conn: Any) -> None:
    if is_child():
        conn.commit()
        conn.close()


def roll_back(conn: Any) -> None:
    with conn.transaction():
        if is_child():
            raise psycopg.Rollback


def commit(conn: Any) -> None:
    with conn.pipeline(), conn.transaction():
        conn.execute("select 1")
        is_child()


def terminate(_: Any) -> None:
    for how in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        child = FORK.Process(target=signal.pause)
        child.start()
        os.kill(child.pid or 0, how)
        child.join()


def look(mine: Any) -> None:
    title = Path("/proc/self/cmdline").read_text()
    mine.send((signal.getsignal(signal.SIGTERM), "gapless: worker" in title))


def is_its_own(_: Any) -> None:
    theirs, mine = FORK.Pipe()
    child = FORK.Process(target=look, args=[mine])
    child.start()
    assert theirs.recv() == (signal.SIG_DFL, False)
    child.join()
    assert child.exitcode == 0, child.exitcode


def outlive(_: Any) -> None:
    """Leave a process that nobody waits for, as a pool does that nobody closes."""
    FORK.Process(target=signal.pause).start()


def pool(_: Any) -> None:
    with FORK.Pool(2) as made:
        assert made.map(abs, [-1, -2]) == [1, 2]


def keep(_: Any) -> None:
    """Use an executor that lives as long as the worker."""
    kept = EXECUTORS.setdefault(os.getpid(), ProcessPoolExecutor(1, mp_context=FORK))
    assert kept.submit(abs, -1).result() == 1


def publish(_: Any) -> None:
    pid = os.fork()
    if pid == 0:
        with gapless.connect(os.environ["GAPLESS_DSN"], autocommit=True) as conn:
            gapless.publish(conn, "reports", {})
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def leave_another(_: Any) -> None:
    """Fork twice: what is left is nobody's child, and ends by itself."""
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            os.setsid()
            signal.alarm(2)
            signal.pause()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def anew(conn: Any) -> None:
    if conn is None:
        return  # once is enough: each imports all anew
    for how in ("spawn", "forkserver"):
        child = multiprocessing.get_context(how).Process(target=abs, args=[1])
        child.start()
        child.join()
        assert child.exitcode == 0, child.exitcode


COME_BACK: list[Callable[[Any], object]] = [
    lambda _: is_child(),
    lambda _: is_child(pty_fork),
    lambda _: is_child(c_fork),
    fail_in_c,
    fail,
    leave,
    interrupt,
    collect,
]
ON_IT: list[Callable[[Any], object]] = [write, close, roll_back, commit]
GO_ON: list[Callable[[Any], object]] = [
    in_a_thread_pool,
    is_its_own,
    terminate,
    pool,
    keep,
    keep,
    publish,
    leave_another,
    anew,
    outlive,
]
DEEDS = COME_BACK + ON_IT + GO_ON


def act(unit: gapless.Unit, conn: Any) -> None:
    for event in unit:
        conn.execute(DONE, [unit.group, event.payload])
        DEEDS[event.payload](conn)


def call(unit: gapless.Unit) -> None:
    with psycopg.connect(os.environ["GAPLESS_DSN"], autocommit=True) as conn:
        for event in unit:
            conn.execute(DONE, [unit.group, event.payload])
    for event in unit:
        if DEEDS[event.payload] not in ON_IT:
            DEEDS[event.payload](None)


async def act_async(unit: gapless.Unit, conn: Any) -> None:
    for event in unit:
        await conn.execute(DONE, [unit.group, event.payload])
        if event.payload < len(COME_BACK):
            await asyncio.create_task(fork_async(event.payload))


async def call_async(unit: gapless.Unit) -> None:
    call(unit)


async def fork_async(number: int) -> None:
    COME_BACK[number](None)
    await asyncio.sleep(0)


def act_batch(batch: gapless.Batch, conn: Any) -> None:
    pid = os.getpid()
    for unit in batch:
        act(unit, conn)
        if os.getpid() != pid:  # a fork past Python leaves the session open: return at once
            return


once = gapless.handler(topic="t", group="once")(act)
batch = gapless.handler(topic="t", group="batch", batch=True)(act_batch)
queue = gapless.handler(topic="t", group="queue", mode="queue")(act)
outside = gapless.handler(topic="t", group="outside", delivery="at-least-once", concurrency=1)(call)
queue_outside = gapless.handler(
    topic="t", group="queue-outside", mode="queue", delivery="at-least-once", concurrency=1
)(call)
in_loop = gapless.handler(topic="t", group="in-loop")(act_async)
in_loop_outside = gapless.handler(
    topic="t", group="in-loop-outside", delivery="at-least-once", concurrency=1
)(call_async)
HANDLERS = [once, batch, queue, outside, queue_outside, in_loop, in_loop_outside]


@gapless.schedule(every="1 second", publishes="reports")
def each_second(due: datetime, conn: Any) -> object:
    conn.execute(DONE, ["schedule", due.timestamp()])
    is_child()
    return {}
