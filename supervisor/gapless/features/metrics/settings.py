"""The settings of metrics and health; their address is with the supervisor's."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.settings.declare import whole


@dataclass(frozen=True, kw_only=True)
class MetricsSettings:
    """Health."""

    standstill_s: int = whole(60, 1, 86_400)
    """Seconds after which /readyz names a partition that has events and whose group passes none."""
