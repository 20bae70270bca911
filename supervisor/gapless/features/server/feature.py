"""The record of the embedded server: its parts for rooms that know no feature."""

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
    ops=("gapless.features.server.ops",),
)
