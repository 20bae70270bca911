"""Signals are counted, wake who waits, and are as before afterwards."""

import os
import select
import signal
from collections.abc import Iterator

import pytest

from gapless.worker.signals import SignalQueue

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _other(_signal: int, _frame: object) -> None:
    raise AssertionError("a handler from before")


@pytest.fixture
def before() -> Iterator[None]:
    """Have a handler of another one for each signal."""
    former = {each: signal.signal(each, _other) for each in (*STOPS, signal.SIGCHLD)}
    yield
    for each, handler in former.items():
        signal.signal(each, handler)


@pytest.fixture
def queue(before: None) -> Iterator[SignalQueue]:
    with SignalQueue() as queue:
        yield queue


def _rings(queue: SignalQueue) -> bool:
    return bool(select.select(queue.filenos(), [], [], 0)[0])


@pytest.mark.parametrize("which", STOPS)
def test_a_request_to_stop_is_counted_once_and_wakes(
    queue: SignalQueue, which: signal.Signals
) -> None:
    assert not _rings(queue)
    assert queue.take() == 0
    os.kill(os.getpid(), which)
    assert _rings(queue)
    assert (queue.take(), queue.take()) == (1, 0)
    assert not _rings(queue)
    for _ in range(2):
        os.kill(os.getpid(), which)
        assert _rings(queue)
    assert queue.take() == 2


def test_the_end_of_a_child_wakes_and_is_no_request(queue: SignalQueue) -> None:
    os.kill(os.getpid(), signal.SIGCHLD)
    assert _rings(queue)
    assert queue.take() == 0
    assert not _rings(queue)


def test_a_full_bell_rings_and_keeps_nobody(queue: SignalQueue) -> None:
    for _ in range(5):
        os.kill(os.getpid(), signal.SIGCHLD)
    [writer] = queue.private_fds()
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writer, b"." * 4096)
    os.kill(os.getpid(), signal.SIGTERM)
    assert queue.take() == 1
    assert not _rings(queue), "all of it was read"


def test_all_is_as_before_afterwards(before: None) -> None:
    with SignalQueue() as queue:
        fds = [*queue.filenos(), *queue.private_fds()]
        assert len(set(fds)) == 2
        assert signal.getsignal(signal.SIGTERM) is not _other
    assert all(signal.getsignal(each) is _other for each in (*STOPS, signal.SIGCHLD))
    assert signal.set_wakeup_fd(-1) == -1
    for fd in fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
