"""What the embedded server adds to the rooms of all."""

from __future__ import annotations

from types import ModuleType

from gapless.feature import Feature, Listed


def _commands() -> ModuleType:
    from gapless.features.server import commands

    return commands


SERVER = Feature(
    commands={
        "server": Listed(
            "the PostgreSQL that gapless runs where no DSN is configured: look at it, start, stop",
            _commands,
        ),
    },
)
