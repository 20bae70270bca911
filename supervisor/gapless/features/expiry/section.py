"""Groups that go soon, for nobody uses them (pure)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiring:
    """A group in the last tenth of its time: idle_s without use, dropped in left_s.

    set_aside: units that go with it.
    """

    group_id: str
    idle_s: float
    left_s: float
    set_aside: int
