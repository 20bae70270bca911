"""The record of webhooks: its parts for rooms that know no feature."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

from gapless.feature import Check, Feature, Listed


def _commands() -> ModuleType:
    from gapless.features.webhooks import commands

    return commands


def _checks() -> Sequence[Check]:
    from gapless.features.webhooks.checks import webhooks

    return (webhooks,)


def _settings() -> Sequence[type]:
    from gapless.features.webhooks.settings import WebhookSettings

    return (WebhookSettings,)


WEBHOOKS = Feature(
    commands={
        "webhooks": Listed(
            "endpoints that are called with events: add, list, test, pause, resume, remove",
            _commands,
        ),
    },
    checks=_checks,
    settings=_settings,
)
