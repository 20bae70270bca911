"""Events that come into the log when they are due, as the sequencer asks for them: or none do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from psycopg import Connection

from gapless.feature import Feature, Inflow


class NoInflow:
    """Nothing waits anywhere."""

    holds = False

    def is_due(self) -> bool:
        return False

    def wait_s(self, most_s: float) -> float:
        return most_s

    def rest_s(self, most_s: float) -> float:
        return most_s

    def promote(self, _conn: Connection[Any]) -> int:
        return 0


def inflow_of(features: Iterable[Feature]) -> Inflow:
    """Return the inflow of the one feature that has it."""
    found = [each.inflow for each in features if each.inflow is not None]
    (make,) = found or [NoInflow]
    return make()
