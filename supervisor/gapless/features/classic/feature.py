"""The record of classic names: its parts for rooms that know no feature."""

from __future__ import annotations

from types import ModuleType

from gapless.feature import Feature, Listed


def _commands() -> ModuleType:
    from gapless.features.classic import commands

    return commands


CLASSIC = Feature(
    commands={
        "classic": Listed(
            "what programs that watch the classic tables still see: "
            "show, hide, notify, silence, list",
            _commands,
        ),
    },
)
