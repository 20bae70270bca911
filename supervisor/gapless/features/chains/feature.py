"""The record of chains: its parts for the rooms that know no feature."""

from __future__ import annotations

from gapless.feature import Feature, Listed

CHAINS = Feature(
    commands={
        "trace": Listed(
            "show the results of a transaction: a tree of events, with the state of each "
            "in each group",
            "gapless.features.chains.commands",
            routed=True,
        ),
    },
    ops=("gapless.features.chains.ops",),
)
