"""The record of chains: its parts for the rooms that know no feature."""

from __future__ import annotations

from types import ModuleType

from gapless.feature import Feature, Listed


def _commands() -> ModuleType:
    from gapless.features.chains import commands

    return commands


CHAINS = Feature(
    commands={
        "trace": Listed(
            "show the results of a transaction: a tree of events, with the state of each "
            "in each group",
            _commands,
        ),
    },
    ops=("gapless.features.chains.ops",),
)
