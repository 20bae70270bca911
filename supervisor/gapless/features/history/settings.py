"""The settings of the history."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.settings.declare import whole

HOURS_MAX = 8_760


@dataclass(frozen=True, kw_only=True)
class HistorySettings:
    """The past of groups and topics: lag, rates, dead letters and members by the minute."""

    history_hours: int = whole(72, 0, HOURS_MAX)
    """Hours that minutes are kept. 0: none is recorded, and those that were kept are deleted."""
