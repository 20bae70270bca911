"""The settings of retention; those of a topic's events are with the log's."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.settings.declare import whole
from gapless.settings.sections import CENTURY_S


@dataclass(frozen=True, kw_only=True)
class RetentionSettings:
    """Retention of records about groups."""

    dead_letter_retention_s: int = whole(2_592_000, 1, CENTURY_S)
    """Seconds that a dead letter is kept after it was handled after all, or discarded. One that
    waits, or is dead, is kept until a person has done something about it."""

    audit_retention_s: int = whole(31_536_000, 1, CENTURY_S)
    """Seconds that the record of people's actions on groups (paused, moved, discarded …) and of
    evicted supervisors is kept."""
