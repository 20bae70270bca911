"""The record of captured tables: its parts for rooms that know no feature."""

from __future__ import annotations

from types import ModuleType

from gapless.feature import Feature, Listed


def _commands() -> ModuleType:
    from gapless.features.capture import commands

    return commands


CAPTURE = Feature(
    commands={
        "capture": Listed("tables whose changes are published: add, list, mend, remove", _commands),
    },
)
