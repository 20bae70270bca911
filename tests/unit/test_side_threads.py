"""The compactor beside the sequencer: how long it waits between its steps."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.worker import compactor as module
from gapless.worker.compactor import LOOK_S, Compactor


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Compactor:
    """One that finds something to do, nothing, something, and then no topic."""
    steps = iter([True, False, True, None])
    monkeypatch.setattr(module, "connect", lambda *_, **__: nullcontext(steps))
    monkeypatch.setattr(module, "compact", next)
    spec: Any = SimpleNamespace(dsn="", connect_timeout_s=1)
    return Compactor(spec)


def test_it_waits_only_when_there_was_nothing_to_do(
    made: Compactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(made.ended, "wait", waited.append)
    made.look()
    assert waited == [0.0, LOOK_S, 0.0]


def test_it_ends_when_it_is_told_to(made: Compactor, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []
    monkeypatch.setattr(module, "compact", lambda steps: taken.append(1) or next(steps))
    made.ended.set()
    made.look()
    assert taken == [1], "one step was taken"
