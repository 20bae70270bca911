"""What retention adds to the rooms of all."""

from __future__ import annotations

from types import ModuleType

from gapless.feature import Feature, Listed


def _commands() -> ModuleType:
    from gapless.features.retention import commands

    return commands


RETENTION = Feature(
    commands={
        "retention": Listed(
            "show what of the log may be dropped, and why the rest stays; drop it", _commands
        ),
    },
)
