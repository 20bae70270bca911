"""An exporter that ends again and again: the first restart is immediate, each later one waits longer."""

import os
import signal
from collections.abc import Iterator
from multiprocessing.connection import wait
from pathlib import Path
from socket import socket

import pytest

from gapless.features.metrics import keep
from gapless.features.metrics.keep import ExporterKeeper
from gapless.settings import Settings
from gapless.worker import retries
from gapless.worker.plan import Plan
from support.patience import patience


def children() -> set[int]:
    lists = Path("/proc/self/task").glob("*/children")
    return {int(pid) for each in lists for pid in each.read_text().split()}


class Kept:
    """A keeper and its exporters, by a clock that a test moves."""

    def __init__(self, dsn: str, listening: socket, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        self.others = children()
        for module in (keep, retries):
            monkeypatch.setattr(module, "monotonic", lambda: self.now_s)
        plan = Plan(settings=Settings(), dsn=dsn, handlers={}, terms={})
        self.keeper = ExporterKeeper(plan, listening, list)

    def runs_after(self, seconds: float) -> bool:
        """Take a turn then; tell whether there is an exporter."""
        self.now_s += seconds
        self.keeper.turn(None, drains=False)
        return bool(children() - self.others)

    def ends(self) -> None:
        """Kill it, and wait until it has ended."""
        (pid,) = children() - self.others
        ended = os.pidfd_open(pid)
        os.kill(pid, signal.SIGKILL)
        assert wait([ended], patience(10))
        os.close(ended)


@pytest.fixture
def kept(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    with socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        one = Kept(dsn, listening, monkeypatch)
        yield one
        one.keeper.end()
        assert children() <= one.others


def test_restarts_wait_ever_longer(kept: Kept) -> None:
    assert kept.runs_after(0)
    for wait_s in (0, 0.2, 0.4):
        kept.ends()
        assert kept.runs_after(0) is (wait_s == 0)
        if wait_s:
            assert not kept.runs_after(wait_s - 0.01)
            assert kept.runs_after(0.02)
