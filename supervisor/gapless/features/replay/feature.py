"""The record of replays: its parts for rooms that know no feature."""

from __future__ import annotations

from gapless.feature import Feature, Listed

REPLAY = Feature(
    commands={
        "replay": Listed(
            "run a handler over a range of a topic, beside all groups",
            "gapless.features.replay.commands",
        ),
    },
    ops=(
        "gapless.features.replay.plan",
        "gapless.features.replay.run",
        "gapless.features.replay.tally",
        "gapless.features.replay.trial",
    ),
)
