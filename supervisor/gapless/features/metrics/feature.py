"""The record of metrics: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.feature import Feature


def _settings() -> Sequence[type]:
    from gapless.features.metrics.settings import MetricsSettings

    return (MetricsSettings,)


METRICS = Feature(settings=_settings)
