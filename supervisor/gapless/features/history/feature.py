"""The record of the history: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.feature import Duty, Feature, Listed, PastReader


def _duties() -> Sequence[Duty]:
    from gapless.features.history.duty import HistoryDuty

    return (HistoryDuty,)


def _past() -> PastReader:
    from gapless.features.history.lines import RecordedPast

    return RecordedPast()


def _settings() -> Sequence[type]:
    from gapless.features.history.settings import HistorySettings

    return (HistorySettings,)


HISTORY = Feature(
    commands={
        "history": Listed(
            "show the past of groups and topics by the minute: lag, rates, dead letters, members",
            "gapless.features.history.commands",
            routed=True,
        ),
    },
    duties=_duties,
    past=_past,
    ops=("gapless.features.history.ops",),
    settings=_settings,
)
