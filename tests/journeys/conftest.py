"""Journeys begin in the world of the step's own tests."""

import sys

import pytest

from gapless.telemetry.spans import TRACING
from support.worlds import group, world

__all__ = ["group", "world"]


@pytest.fixture(autouse=True)
def nobody_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget that another test of this process has imported OpenTelemetry."""
    monkeypatch.delitem(sys.modules, TRACING, raising=False)
