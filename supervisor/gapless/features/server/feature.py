"""The record of the embedded server: its parts for rooms that know no feature."""

from __future__ import annotations

from gapless.feature import Feature, Listed

SERVER = Feature(
    commands={
        "server": Listed(
            "the PostgreSQL that gapless runs where no DSN is configured: look at it, start, stop",
            "gapless.features.server.commands",
        ),
    },
    ops=("gapless.features.server.ops",),
)
