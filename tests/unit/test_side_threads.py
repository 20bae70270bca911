"""What runs beside the sequencer: how long it waits between its steps."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from gapless.worker import compactor as module
from gapless.worker.compactor import LOOK_S, Compactor


def test_the_compactor_waits_only_when_there_was_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps that did something follow each other at once; without a topic that is compacted it ends."""
    steps = iter([True, False, True, None])
    waited: list[float] = []
    monkeypatch.setattr(module, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(module, "compact", lambda _: next(steps))
    spec: Any = SimpleNamespace(dsn="", connect_timeout_s=1)
    made = Compactor(spec)
    monkeypatch.setattr(made.ended, "wait", waited.append)
    made.look()
    assert waited == [0.0, LOOK_S, 0.0]


def test_the_compactor_ends_when_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter([True, True])
    monkeypatch.setattr(module, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(module, "compact", lambda _: next(steps))
    spec: Any = SimpleNamespace(dsn="", connect_timeout_s=1)
    made = Compactor(spec)
    made.ended.set()
    made.look()
    assert next(steps) is True, "one step was taken"
