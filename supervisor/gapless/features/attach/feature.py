"""The record of attached outboxes: its parts for rooms that know no feature."""

from __future__ import annotations

from types import ModuleType

from gapless.feature import Feature, Listed


def _commands() -> ModuleType:
    from gapless.features.attach import commands

    return commands


ATTACH = Feature(
    commands={
        "attach": Listed(
            "outboxes that exist, as topics: add, group, switch, back, list, mend, remove",
            _commands,
        ),
    },
)
