"""Calls outside the session's thread: what they read on is read there, and what that raises comes back."""

from collections.abc import Sequence
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest

import gapless
from gapless.consume.outside import calls as module
from gapless.consume.outside.calls import Calls, Ended
from gapless.consume.verdict.failure import Failure

PATIENCE_S = 20.0
CONN: Any = "the session"


@gapless.handler(topic="orders", delivery="at-least-once")
def handler(unit: gapless.Unit) -> None:
    """It is never called: its call is a test's."""


def reads(_handler: Any, unit: Any) -> Failure | None:
    """The call: it reads what its unit has, and fails as that does."""
    try:
        unit.found += unit.read([1, 2])
    except OSError as error:
        return Failure(error=error)
    return None


def ended(calls: Calls) -> list[tuple[int, Ended]]:
    """How calls have ended, as soon as one has; without waiting, for that might be forever."""
    until_s = monotonic() + PATIENCE_S
    while not (found := list(calls.collect(wait=False))) and monotonic() < until_s:
        sleep(0.01)
    return found


@pytest.mark.parametrize("error", [None, OSError("gone")])
def test_what_a_read_finds_or_raises_is_told_to_who_reads(
    monkeypatch: pytest.MonkeyPatch, error: OSError | None
) -> None:
    def fetch(ids: Sequence[int]) -> list[Any]:
        if error is not None:
            raise error
        return [f"event {each}" for each in ids]

    monkeypatch.setattr(module, "call_outside", reads)
    made: Any = handler
    calls = Calls(made, 1, lambda: None)
    unit: Any = SimpleNamespace(first_offset=7, found=[], read=calls.elsewhere(fetch))
    calls.begin(unit, CONN)
    assert ended(calls) == [(7, error if error is None else Failure(error=error))]
    assert unit.found == ([] if error else ["event 1", "event 2"])
    calls.abandon()
