"""The record of the gateway: its parts for the rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.feature import Feature, Listed


def _settings() -> Sequence[type]:
    from gapless.features.gateway.settings import GatewaySettings

    return (GatewaySettings,)


GATEWAY = Feature(
    commands={
        "gateway": Listed(
            "serve the log over HTTP: publish, read, follow; start as many as you like",
            "gapless.features.gateway.commands",
        ),
        "keys": Listed(
            "keys of the gateway, with their rights: list, create, revoke",
            "gapless.features.gateway.key_commands",
        ),
    },
    ops=("gapless.features.gateway.keys",),
    settings=_settings,
)
