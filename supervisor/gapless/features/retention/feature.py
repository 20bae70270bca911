"""The record of retention: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.feature import Duty, Feature, Listed


def _duties() -> Sequence[Duty]:
    from gapless.features.retention.duty import RetentionDuty

    return (RetentionDuty,)


def _settings() -> Sequence[type]:
    from gapless.features.retention.settings import RetentionSettings

    return (RetentionSettings,)


RETENTION = Feature(
    commands={
        "retention": Listed(
            "show the chunks that may be dropped, and why others stay; drop them",
            "gapless.features.retention.commands",
        ),
    },
    page="gapless.features.retention",
    duties=_duties,
    ops=("gapless.features.retention.chunks", "gapless.features.retention.ops"),
    settings=_settings,
)
